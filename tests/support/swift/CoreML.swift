// Stands in for Apple's Core ML where that is absent, so that the runner's sources can be checked and run.
//
// Signatures: Apple's documentation of Core ML. A model is what its file name says: `stateful` has a state,
// `inputs` takes an input of every type. The environment says what fails: `FAILS=cpu_only` throws in a load,
// `CRASHES=cpu_and_gpu` ends the process in the third prediction, `IS_LOW_POWER` names a file.

@_exported import CoreVideo
import Foundation

public func autoreleasepool<R>(_ body: () throws -> R) rethrows -> R { try body() }

extension ProcessInfo {
    public enum ThermalState: Int { case nominal, fair, serious, critical }

    public var thermalState: ThermalState { .fair }

    public var isLowPowerModeEnabled: Bool {
        guard let file = environment["IS_LOW_POWER"] else { return false }
        return FileManager.default.fileExists(atPath: file)
    }
}

// MARK: - Devices

public class MLCPUComputeDevice {}
public class MLGPUComputeDevice {}
public class MLNeuralEngineComputeDevice { public var totalCoreCount: Int { 16 } }

public enum MLComputeDevice {
    case cpu(MLCPUComputeDevice)
    case gpu(MLGPUComputeDevice)
    case neuralEngine(MLNeuralEngineComputeDevice)
}

// MARK: - Configuration

public enum MLComputeUnits: Int { case cpuOnly = 0, cpuAndGPU = 1, all = 2, cpuAndNeuralEngine = 3 }

public struct MLOptimizationHints {
    public enum ReshapeFrequency { case frequent, infrequent }
    public enum SpecializationStrategy { case `default`, fastPrediction }

    public var reshapeFrequency: ReshapeFrequency = .frequent
    public var specializationStrategy: SpecializationStrategy = .default
    public init() {}
}

public class MLModelConfiguration {
    public var computeUnits: MLComputeUnits = .all
    public var modelDisplayName: String?
    public var allowLowPrecisionAccumulationOnGPU = false
    public var functionName: String?
    public var optimizationHints = MLOptimizationHints()
    public init() {}
}

public class MLPredictionOptions {
    public var outputBackings: [String: Any] = [:]
    public init() {}
}

// MARK: - Values

public enum MLFeatureType: Int {
    case invalid = 0, int64, double, string, image, multiArray, dictionary, sequence, state
}

public enum MLMultiArrayDataType: Int { case double = 65600, float32 = 65568, float16 = 65552, int32 = 131104 }

public class MLMultiArray {
    public let shape: [NSNumber]
    public let dataType: MLMultiArrayDataType
    private let storage: UnsafeMutableRawBufferPointer

    public init(shape: [NSNumber], dataType: MLMultiArrayDataType) throws {
        self.shape = shape
        self.dataType = dataType
        let sizes: [MLMultiArrayDataType: Int] = [.double: 8, .float32: 4, .float16: 2, .int32: 4]
        let count = shape.reduce(1) { $0 * $1.intValue }
        storage = .allocate(byteCount: count * sizes[dataType]!, alignment: 64)
    }

    public init(pixelBuffer: CVPixelBuffer, shape: [NSNumber]) {
        precondition(shape.last!.intValue == CVPixelBufferGetWidth(pixelBuffer))
        self.shape = shape
        dataType = .float16
        storage = .allocate(byteCount: shape.reduce(2) { $0 * $1.intValue }, alignment: 64)
    }

    deinit { storage.deallocate() }

    public var count: Int { shape.reduce(1) { $0 * $1.intValue } }

    public func withUnsafeMutableBytes<R>(
        _ body: (UnsafeMutableRawBufferPointer, [Int]) throws -> R
    ) rethrows -> R { try body(storage, []) }
}

public class MLSequence {
    public init(strings _: [String]) {}
    public init(int64s _: [NSNumber]) {}
}

public class MLFeatureValue {
    public let type: MLFeatureType
    public var imageBufferValue: CVPixelBuffer?
    public var multiArrayValue: MLMultiArray?

    public init(int64 _: Int64) { type = .int64 }
    public init(double _: Double) { type = .double }
    public init(string _: String) { type = .string }
    public init(sequence _: MLSequence) { type = .sequence }

    public init(multiArray: MLMultiArray) {
        type = .multiArray
        multiArrayValue = multiArray
    }

    public init(pixelBuffer: CVPixelBuffer) {
        type = .image
        imageBufferValue = pixelBuffer
    }

    public init(dictionary: [AnyHashable: NSNumber]) throws {
        precondition(!dictionary.isEmpty)
        type = .dictionary
    }
}

public protocol MLFeatureProvider {
    var featureNames: Set<String> { get }
    func featureValue(for featureName: String) -> MLFeatureValue?
}

public class MLDictionaryFeatureProvider: MLFeatureProvider {
    private let values: [String: MLFeatureValue]

    public init(dictionary: [String: Any]) throws {
        values = dictionary.mapValues { $0 as! MLFeatureValue }
    }

    public var featureNames: Set<String> { Set(values.keys) }

    public func featureValue(for featureName: String) -> MLFeatureValue? { values[featureName] }
}

// MARK: - Descriptions

public class MLMultiArrayConstraint {
    public let shape: [NSNumber]
    public let dataType: MLMultiArrayDataType

    init(_ shape: [Int], _ type: MLMultiArrayDataType) {
        self.shape = shape.map { NSNumber(value: $0) }
        dataType = type
    }
}

public class MLImageConstraint {
    public var pixelsHigh: Int { 2 }
    public var pixelsWide: Int { 3 }
    public var pixelFormatType: OSType { 0x4247_5241 }
}

public class MLDictionaryConstraint {
    public let keyType: MLFeatureType
    init(_ type: MLFeatureType) { keyType = type }
}

public class MLSequenceConstraint {
    public let valueDescription: MLFeatureDescription
    public var countRange: NSRange { NSRange(location: 0, length: 5) }
    init(_ type: MLFeatureType) { valueDescription = MLFeatureDescription("element", type) }
}

public class MLFeatureDescription {
    public let name: String
    public let type: MLFeatureType
    public var isOptional: Bool { false }
    public var multiArrayConstraint: MLMultiArrayConstraint?
    public var imageConstraint: MLImageConstraint?
    public var dictionaryConstraint: MLDictionaryConstraint?
    public var sequenceConstraint: MLSequenceConstraint?

    init(_ name: String, _ type: MLFeatureType) {
        self.name = name
        self.type = type
    }

    static func array(_ name: String, _ type: MLMultiArrayDataType) -> MLFeatureDescription {
        let made = MLFeatureDescription(name, .multiArray)
        made.multiArrayConstraint = MLMultiArrayConstraint([1, 8], type)
        return made
    }
}

public class MLModelDescription {
    let kind: String
    init(_ kind: String) { self.kind = kind }

    public var inputDescriptionsByName: [String: MLFeatureDescription] {
        var inputs = [MLFeatureDescription.array("x", .float16)]
        if kind == "inputs" {
            inputs += [.array("f32", .float32), .array("f64", .double), .array("ids", .int32)]
            inputs += [MLFeatureDescription("i", .int64), MLFeatureDescription("d", .double)]
            inputs += [MLFeatureDescription("s", .string)]
            inputs += ["image", "words", "counts", "tokens"].map { name in
                let types: [String: MLFeatureType] = ["image": .image, "tokens": .sequence]
                let made = MLFeatureDescription(name, types[name] ?? .dictionary)
                made.imageConstraint = MLImageConstraint()
                made.dictionaryConstraint = MLDictionaryConstraint(name == "words" ? .string : .int64)
                made.sequenceConstraint = MLSequenceConstraint(.int64)
                return made
            }
        }
        return Dictionary(uniqueKeysWithValues: inputs.map { ($0.name, $0) })
    }

    public var stateDescriptionsByName: [String: MLFeatureDescription] {
        kind == "stateful" ? ["cache": MLFeatureDescription("cache", .state)] : [:]
    }
}

// MARK: - Models

public class MLState {}

private struct CoreMLError: LocalizedError, CustomNSError {
    static var errorDomain: String { "com.apple.CoreML" }
    var errorCode: Int { -14 }
    var errorDescription: String? { "Failed to build the model execution plan with error code: -14." }
}

private func isNamed(_ variable: String, _ units: MLComputeUnits) -> Bool {
    let names: [MLComputeUnits: String] = [
        .all: "all", .cpuOnly: "cpu_only", .cpuAndGPU: "cpu_and_gpu", .cpuAndNeuralEngine: "cpu_and_ne",
    ]
    return ProcessInfo.processInfo.environment[variable] == names[units]
}

public class MLModel {
    public let modelDescription: MLModelDescription
    private let configuration: MLModelConfiguration
    private var predictions = 0

    public init(contentsOf url: URL, configuration: MLModelConfiguration) throws {
        precondition(url.pathExtension == "mlmodelc" && FileManager.default.fileExists(atPath: url.path))
        if isNamed("FAILS", configuration.computeUnits) { throw CoreMLError() }
        modelDescription = MLModelDescription(url.deletingPathExtension().lastPathComponent)
        self.configuration = configuration
    }

    public static var availableComputeDevices: [MLComputeDevice] {
        [.cpu(MLCPUComputeDevice()), .neuralEngine(MLNeuralEngineComputeDevice())]
    }

    public class func compileModel(at modelURL: URL) async throws -> URL {
        if ProcessInfo.processInfo.environment["FAILS"] == "compile" { throw CoreMLError() }
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let name = modelURL.deletingPathExtension().lastPathComponent
        let compiled = folder.appendingPathComponent("\(name).mlmodelc")
        try FileManager.default.copyItem(at: modelURL, to: compiled)
        return compiled
    }

    public class func compileModel(at modelURL: URL) throws -> URL { modelURL }

    public func makeState() -> MLState { MLState() }

    private func run(_ options: MLPredictionOptions) throws -> any MLFeatureProvider {
        predictions += 1
        if predictions == 3, isNamed("CRASHES", configuration.computeUnits) { abort() }
        let y = options.outputBackings["y"] as? MLMultiArray
        let made = try y ?? MLMultiArray(shape: [1, 8], dataType: .float16)
        let image = CVBuffer(width: 3, height: 2, format: 0x4247_5241)
        return try MLDictionaryFeatureProvider(dictionary: [
            "y": MLFeatureValue(multiArray: made), "picture": MLFeatureValue(pixelBuffer: image),
        ])
    }

    public func prediction(from _: any MLFeatureProvider) throws -> any MLFeatureProvider { fatalError() }

    public func prediction(
        from _: any MLFeatureProvider, options: MLPredictionOptions
    ) throws -> any MLFeatureProvider {
        precondition(modelDescription.stateDescriptionsByName.isEmpty)
        return try run(options)
    }

    public func prediction(
        from _: any MLFeatureProvider, options: MLPredictionOptions = MLPredictionOptions()
    ) async throws -> any MLFeatureProvider {
        precondition(modelDescription.stateDescriptionsByName.isEmpty)
        return try run(options)
    }

    public func prediction(
        from _: any MLFeatureProvider, using _: MLState, options: MLPredictionOptions
    ) throws -> any MLFeatureProvider { try run(options) }

    public func prediction(
        from _: any MLFeatureProvider, using _: MLState, options: MLPredictionOptions = MLPredictionOptions()
    ) async throws -> any MLFeatureProvider { try run(options) }
}

// MARK: - Plans

public enum MLModelStructure {
    public struct Program {
        public struct NamedValueType { public let name: String }

        public struct Operation {
            public let operatorName: String
            public let outputs: [NamedValueType]
            public let blocks: [Block]
        }

        public struct Block { public let operations: [Operation] }
        public struct Function { public let block: Block }
        public let functions: [String: Function]
    }

    public struct NeuralNetwork {
        public struct Layer {
            public let name: String
            public let type: String
            public let inputNames: [String]
            public let outputNames: [String]
        }

        public let layers: [Layer]
    }

    public struct Pipeline {
        public let subModelNames: [String]
        public let subModels: [MLModelStructure]
    }

    case neuralNetwork(NeuralNetwork)
    case program(Program)
    case pipeline(Pipeline)
    case unsupported
}

public class MLComputePlan {
    public struct DeviceUsage {
        public let supported: [MLComputeDevice]
        public let preferred: MLComputeDevice
    }

    public struct Cost { public let weight: Double }

    public let modelStructure: MLModelStructure

    private init(_ structure: MLModelStructure) { modelStructure = structure }

    public static func load(
        contentsOf url: URL, configuration: MLModelConfiguration
    ) async throws -> MLComputePlan {
        func operation(_ name: String, _ output: String) -> MLModelStructure.Program.Operation {
            .init(operatorName: name, outputs: [.init(name: output)], blocks: [])
        }
        let ops = [operation("const", "k"), operation("ios18.relu", "a"), operation("ios18.tanh", "b")]
        let main = MLModelStructure.Program.Function(block: .init(operations: ops))
        return MLComputePlan(.program(.init(functions: ["main": main])))
    }

    public func estimatedCost(of operation: MLModelStructure.Program.Operation) -> Cost? {
        Cost(weight: operation.operatorName == "ios18.relu" ? 0.75 : 0.25)
    }

    public func deviceUsage(for _: MLModelStructure.NeuralNetwork.Layer) -> DeviceUsage? { nil }

    public func deviceUsage(for operation: MLModelStructure.Program.Operation) -> DeviceUsage? {
        let cpu = MLComputeDevice.cpu(MLCPUComputeDevice())
        guard operation.operatorName == "ios18.relu" else { return DeviceUsage(supported: [cpu], preferred: cpu) }
        let engine = MLComputeDevice.neuralEngine(MLNeuralEngineComputeDevice())
        return DeviceUsage(supported: [cpu, engine], preferred: engine)
    }
}
