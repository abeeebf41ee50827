import CoreML
import Foundation

/// What the app tells while it works: a line on standard output, and the text on its screen.
struct Message: Codable {
    /// `progress`, `waiting`, `finished`, `failed`.
    var kind: String
    var text: String
    var model = ""
    var function = ""
    var computeUnits = ""
    var powerMode = ""
    var step = ""
    var status = ""
    var total = 0

    enum CodingKeys: String, CodingKey {
        case kind, text, model, function, step, status, total
        case computeUnits = "compute_units"
        case powerMode = "power_mode"
    }

    init(_ kind: String, _ text: String) {
        self.kind = kind
        self.text = text
    }

    init(compiling model: String) {
        kind = "progress"
        text = "\(model), compile"
        self.model = model
        step = "compile"
        status = Status.running.rawValue
    }

    init(_ setting: Setting, total: Int) {
        kind = "progress"
        model = setting.model
        function = setting.function
        computeUnits = setting.computeUnits
        powerMode = setting.powerMode
        step = setting.step
        status = setting.status.rawValue
        self.total = total
        let state = setting.status == .running ? setting.step : setting.status.rawValue
        text = [setting.model, setting.function, setting.computeUnits, setting.powerMode, state]
            .filter { !$0.isEmpty }.joined(separator: ", ")
    }

    /// The line on standard output.
    var line: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let json = (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
        return "coremlscope-runner \(json)\n"
    }
}

/// Measures every model of a request under every setting, and goes on where an earlier start stopped.
final class Run {
    private let request: Request
    private let payload: URL
    private let journal: Journal
    private let tell: (Message) -> Void

    /// - Parameters:
    ///   - payload: The folder with `request.json` and the models.
    ///   - documents: The folder for `results.json`.
    ///   - tell: Is called with what happens.
    init(payload: URL, documents: URL, tell: @escaping (Message) -> Void) throws {
        request = try Request.read(payload)
        self.payload = payload
        self.tell = tell
        try FileManager.default.createDirectory(at: documents, withIntermediateDirectories: true)
        let file = documents.appendingPathComponent("results.json")
        journal = try Journal(file: file, request: request, device: Device.current())
        removeLeftModels()
    }

    /// A start that crashed left the model that it had compiled. On a Mac the folder belongs to others, too.
    private func removeLeftModels() {
        #if os(iOS)
        let manager = FileManager.default
        let left = try? manager.contentsOfDirectory(
            at: manager.temporaryDirectory, includingPropertiesForKeys: nil)
        for model in left ?? [] {
            try? manager.removeItem(at: model)
        }
        #endif
    }

    func start() async throws {
        for mode in powerModes {
            let isReached = await reach(mode)
            for model in request.models {
                try await measure(model, mode: mode, isReached: isReached)
            }
        }
        try journal.finish()
        tell(Message("finished", "finished: \(journal.file.path)"))
    }

    /// The mode in which the device is comes first.
    private var powerModes: [String] {
        let current = currentPowerMode()
        return request.powerModes.isEmpty
            ? [current] : request.powerModes.sorted { a, b in a == current && b != current }
    }

    /// Waits until the user has changed the power mode; an app cannot do it.
    private func reach(_ mode: String) async -> Bool {
        guard currentPowerMode() != mode else { return true }
        let word = mode == "low power" ? "on" : "off"
        let advice = "switch Low Power Mode \(word) in Settings, Battery"
        let start = Moment()
        while start.elapsed < request.powerWaitS {
            tell(Message("waiting", advice))
            try? await Task.sleep(nanoseconds: 2_000_000_000)
            if currentPowerMode() == mode { return true }
        }
        return false
    }

    private func measure(_ model: Request.Model, mode: String, isReached: Bool) async throws {
        let settings = (model.functions.isEmpty ? [""] : model.functions).flatMap { function in
            request.computeUnits.map { units in
                Setting(model: model.name, function: function, computeUnits: units, powerMode: mode)
            }
        }
        let missing = settings.filter { !journal.contains($0) }
        guard !missing.isEmpty else { return }
        guard isReached else {
            let text = "the device was not put into this power mode within \(Int(request.powerWaitS)) s"
            return try fail(missing, Failure("power mode", text: text))
        }
        let compiled: URL
        do {
            compiled = try await compile(model)
        } catch {
            return try fail(missing, Failure("compile", error))
        }
        for setting in missing {
            let measuring = Measuring(
                setting, of: model, compiled: compiled, request: request, journal: journal, tell: tell)
            try await measuring.run()
        }
        if compiled != payload.appendingPathComponent(model.path) {
            try? FileManager.default.removeItem(at: compiled)
        }
    }

    private func fail(_ settings: [Setting], _ failure: Failure) throws {
        for setting in settings {
            var failed = setting
            failed.status = .failed
            failed.step = failure.step
            failed.failures = [failure]
            failed.measuredAt = timestamp()
            try journal.put(failed)
        }
    }

    /// Compiles a model on the device. Earlier results are removed; the last one is used.
    private func compile(_ model: Request.Model) async throws -> URL {
        let source = payload.appendingPathComponent(model.path)
        guard source.pathExtension != "mlmodelc" else { return source }
        if let earlier = journal.compilation(of: model.name), earlier.status != .done {
            throw RunnerError(earlier.failure?.text ?? "the model could not be compiled")
        }
        var compilation = journal.compilation(of: model.name) ?? Compilation(
            model: model.name, status: .running, samplesS: [], failure: nil)
        let count = compilation.status == .done ? 1 : max(request.compiles, 1)
        compilation.status = .running
        try journal.put(compilation)
        var compiled: URL?
        do {
            for _ in 0..<count {
                tell(Message(compiling: model.name))
                if let earlier = compiled {
                    try? FileManager.default.removeItem(at: earlier)
                }
                let start = Moment()
                compiled = try await MLModel.compileModel(at: source)
                compilation.samplesS.append(start.elapsed)
            }
            compilation.status = .done
        } catch {
            compilation.status = .failed
            compilation.failure = Failure("compile", error)
            try journal.put(compilation)
            throw error
        }
        try journal.put(compilation)
        guard let last = compiled else { throw RunnerError("the model was not compiled") }
        return last
    }
}

private func currentPowerMode() -> String {
    ProcessInfo.processInfo.isLowPowerModeEnabled ? "low power" : "normal"
}
