import CoreML
import CoreVideo
import Foundation

/// A loaded model with one set of inputs. A model with states keeps one state for all its predictions.
struct Predictor {
    let model: MLModel
    let inputs: Inputs
    private let state: Any?

    init(_ model: MLModel, known: [String: Request.Input], seed: UInt64) throws {
        self.model = model
        inputs = try Inputs(model.modelDescription.inputDescriptionsByName, known: known, seed: seed)
        if #available(iOS 18.0, macOS 15.0, *), !model.modelDescription.stateDescriptionsByName.isEmpty {
            state = model.makeState()
        } else {
            state = nil
        }
    }

    var isStateful: Bool { state != nil }

    /// Times one prediction. What it leaves behind is released afterwards, outside the time.
    func time(_ options: MLPredictionOptions) throws -> Double {
        try autoreleasepool {
            let start = Moment()
            _ = try predict(options)
            return start.elapsed
        }
    }

    func predict(_ options: MLPredictionOptions) throws -> MLFeatureProvider {
        if #available(iOS 18.0, macOS 15.0, *), let state = state as? MLState {
            return try model.prediction(from: inputs.provider, using: state, options: options)
        }
        return try model.prediction(from: inputs.provider, options: options)
    }

    func timeAsync(_ options: MLPredictionOptions) async throws -> Double {
        let start = Moment()
        if #available(iOS 18.0, macOS 15.0, *), let state = state as? MLState {
            _ = try await model.prediction(from: inputs.provider, using: state, options: options)
        } else {
            _ = try await model.prediction(from: inputs.provider, options: options)
        }
        return start.elapsed
    }

    /// Predictions of which several are in flight at the same time. States allow one at a time.
    func throughput(_ predictions: Int, inFlight: Int) async throws -> Throughput {
        let each = max(1, predictions / inFlight)
        let start = Moment()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<inFlight {
                group.addTask {
                    for _ in 0..<each {
                        _ = try await timeAsync(MLPredictionOptions())
                    }
                }
            }
            try await group.waitForAll()
        }
        return Throughput(inFlight: inFlight, predictions: each * inFlight, wallS: start.elapsed)
    }

    /// Predictions into buffers of the app, made after the outputs of one prediction. Core ML may ignore them.
    func timeWithBackings(_ count: Int) throws -> Backings? {
        let backings = try makeBackings(like: try predict(MLPredictionOptions()))
        guard !backings.isEmpty else { return nil }
        let options = MLPredictionOptions()
        options.outputBackings = backings
        let last = try predict(options)
        let used = backings.keys.filter { name in
            guard let value = last.featureValue(for: name) else { return false }
            if value.type == .image {
                return value.imageBufferValue === backings[name]
            }
            return value.multiArrayValue === backings[name]
        }
        var samples: [Double] = []
        for _ in 0..<count {
            samples.append(try time(options))
        }
        let ignored = Set(backings.keys).subtracting(used)
        return Backings(samplesS: samples, used: used.sorted(), ignored: ignored.sorted())
    }

    private func makeBackings(like outputs: MLFeatureProvider) throws -> [String: AnyObject] {
        var backings: [String: AnyObject] = [:]
        for name in outputs.featureNames {
            guard let value = outputs.featureValue(for: name) else { continue }
            if value.type == .image, let image = value.imageBufferValue {
                backings[name] = try makePixelBuffer(
                    width: CVPixelBufferGetWidth(image), height: CVPixelBufferGetHeight(image),
                    format: CVPixelBufferGetPixelFormatType(image))
            } else if value.type == .multiArray, let array = value.multiArrayValue {
                backings[name] = try makeArray(like: array)
            }
        }
        return backings
    }

    /// A half-precision array lies on a surface, which the Neural Engine can write to.
    private func makeArray(like array: MLMultiArray) throws -> MLMultiArray {
        let shape = array.shape.map(\.intValue)
        if array.dataType == .float16, let width = shape.last, width > 0, array.count > 0 {
            let buffer = try makePixelBuffer(
                width: width, height: array.count / width, format: kCVPixelFormatType_OneComponent16Half)
            return MLMultiArray(pixelBuffer: buffer, shape: array.shape)
        }
        return try MLMultiArray(shape: array.shape, dataType: array.dataType)
    }
}
