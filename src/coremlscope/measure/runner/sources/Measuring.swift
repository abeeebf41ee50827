import CoreML
import Foundation

/// Measures one model under one setting, step by step. Every step is written down before it begins.
final class Measuring {
    private let request: Request
    private let model: Request.Model
    private let compiled: URL
    private let journal: Journal
    private let tell: (Message) -> Void
    private var setting: Setting
    private var lastMessage = Moment()

    init(
        _ setting: Setting, of model: Request.Model, compiled: URL, request: Request, journal: Journal,
        tell: @escaping (Message) -> Void
    ) {
        self.setting = setting
        self.model = model
        self.compiled = compiled
        self.request = request
        self.journal = journal
        self.tell = tell
    }

    /// Throws only where the results cannot be written.
    func run() async throws {
        setting.before = await Conditions.now()
        try begin("load")
        do {
            let configuration = try makeConfiguration()
            let predictor = try load(configuration)
            try predict(predictor)
            await measureMore(predictor, configuration)
            setting.status = .done
        } catch let error as JournalError {
            throw error.cause
        } catch {
            setting.failures.append(Failure(setting.step, error))
            setting.status = .failed
        }
        observeMemory()
        setting.after = await Conditions.now()
        setting.measuredAt = timestamp()
        try journal.put(setting)
        tell(Message(setting, total: setting.predictS.count))
    }

    private func makeConfiguration() throws -> MLModelConfiguration {
        let configuration = MLModelConfiguration()
        configuration.computeUnits = try computeUnits(setting.computeUnits)
        configuration.modelDisplayName = "\(setting.model) \(setting.computeUnits)"
        if !setting.function.isEmpty {
            guard #available(iOS 18.0, macOS 15.0, *) else {
                throw RunnerError("functions of a model can be chosen from iOS 18 and macOS 15 on")
            }
            configuration.functionName = setting.function
        }
        return configuration
    }

    /// The first load is kept apart: Core ML may compile for the device then. Earlier models are released.
    private func load(_ configuration: MLModelConfiguration) throws -> Predictor {
        setting.firstLoadS = try timeLoad(configuration)
        try save()
        for _ in 0..<request.loads {
            try take("load", \.loadS) { try timeLoad(configuration) }
        }
        let loaded = try MLModel(contentsOf: compiled, configuration: configuration)
        observeMemory()
        let predictor = try Predictor(loaded, known: model.inputs, seed: request.seed)
        setting.inputs = predictor.inputs.features
        setting.isStateful = predictor.isStateful
        return predictor
    }

    /// Takes a sample, and notes its place where the app was in the background meanwhile.
    private func take(
        _ step: String, _ samples: WritableKeyPath<Setting, [Double]>, _ measure: () throws -> Double
    ) rethrows {
        let before = Background.shared.state
        let seconds = try measure()
        if before.isBehind || Background.shared.state != before {
            setting.inBackground = setting.inBackground ?? [:]
            setting.inBackground?[step, default: []].append(setting[keyPath: samples].count)
        }
        setting[keyPath: samples].append(seconds)
        showLife()
    }

    private func timeLoad(_ configuration: MLModelConfiguration) throws -> Double {
        try autoreleasepool {
            let start = Moment()
            let loaded = try MLModel(contentsOf: compiled, configuration: configuration)
            let elapsed = start.elapsed
            withExtendedLifetime(loaded) { observeMemory() }
            return elapsed
        }
    }

    private func predict(_ predictor: Predictor) throws {
        let options = MLPredictionOptions()
        try begin("predict")
        for _ in 0..<request.warmups {
            try take("warm-up", \.warmupS) { try predictor.time(options) }
        }
        observeMemory()
        for _ in 0..<request.iterations {
            try take("predict", \.predictS) { try predictor.time(options) }
        }
        observeMemory()
        try save()
    }

    /// Steps that leave the others valid when they fail.
    private func measureMore(_ predictor: Predictor, _ configuration: MLModelConfiguration) async {
        await attempt("async") {
            for _ in 0..<self.request.iterations {
                self.setting.asyncS.append(try await predictor.timeAsync(MLPredictionOptions()))
                self.showLife()
            }
        }
        if !predictor.isStateful, request.inFlight > 1 {
            await attempt("throughput") {
                self.setting.throughput = try await predictor.throughput(
                    self.request.iterations, inFlight: self.request.inFlight)
            }
        }
        await attempt("backings") {
            self.setting.backings = try predictor.timeWithBackings(self.request.iterations)
        }
        if #available(iOS 17.4, macOS 14.4, *) {
            await attempt("plan") {
                let plan = try await Plan.load(self.compiled, configuration, function: self.setting.function)
                self.setting.plan = plan.operations
            }
        } else {
            setting.failures.append(Failure("plan", text: "plans exist from iOS 17.4 and macOS 14.4 on"))
        }
    }

    private func attempt(_ step: String, _ body: () async throws -> Void) async {
        do {
            try begin(step)
            try await body()
            observeMemory()
            try save()
        } catch {
            setting.failures.append(Failure(step, error))
        }
    }

    private func begin(_ step: String) throws {
        setting.step = step
        try save()
        tell(Message(setting, total: request.iterations))
        lastMessage = Moment()
    }

    /// Reports every 20 s that the step continues, since the host treats long silence as a hang.
    private func showLife() {
        if lastMessage.elapsed > 20 {
            tell(Message(setting, total: request.iterations))
            lastMessage = Moment()
        }
    }

    private func save() throws {
        do {
            try journal.put(setting)
        } catch {
            throw JournalError(cause: error)
        }
    }

    private func observeMemory() {
        if let bytes = Conditions.footprint() {
            setting.largestFootprintBytes = max(bytes, setting.largestFootprintBytes ?? 0)
        }
    }
}

/// The results cannot be written, so that going on makes no sense.
private struct JournalError: Error {
    var cause: Error
}

private func computeUnits(_ name: String) throws -> MLComputeUnits {
    switch name {
    case "all": return .all
    case "cpu_and_ne": return .cpuAndNeuralEngine
    case "cpu_and_gpu": return .cpuAndGPU
    case "cpu_only": return .cpuOnly
    default: throw RunnerError("the compute units \(name) are not known")
    }
}
