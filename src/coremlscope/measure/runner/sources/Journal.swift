import Foundation

/// Keeps the results on disk. The file is complete JSON after every step, so that a crash loses one step.
final class Journal {
    let file: URL
    private(set) var results: Results

    /// Continues the results of an earlier start for the same request that did not end, or begins new ones.
    init(file: URL, request: Request, device: Device) throws {
        self.file = file
        if let data = try? Data(contentsOf: file),
            let earlier = try? JSONDecoder().decode(Results.self, from: data),
            earlier.id == request.id, !earlier.complete
        {
            results = earlier
            results.launches += 1
            markCrashes()
        } else {
            results = Results(
                schema: Results.schema, id: request.id, version: request.version, device: device,
                launches: 1, startedAt: timestamp(), endedAt: "", complete: false, compilations: [],
                results: [])
        }
        try save()
    }

    /// What is still running was ended by a crash, by the system, or by hand.
    private func markCrashes() {
        for index in results.results.indices where results.results[index].status == .running {
            let step = results.results[index].step
            results.results[index].status = .crashed
            results.results[index].failures.append(Failure(step, text: "the app ended during this step"))
        }
        for index in results.compilations.indices where results.compilations[index].status == .running {
            results.compilations[index].status = .crashed
            results.compilations[index].failure = Failure(
                "compile", text: "the app ended while the model was compiled")
        }
    }

    func contains(_ setting: Setting) -> Bool {
        results.results.contains { $0.isSame(as: setting) }
    }

    func compilation(of model: String) -> Compilation? {
        results.compilations.first { $0.model == model }
    }

    func put(_ setting: Setting) throws {
        if let index = results.results.firstIndex(where: { $0.isSame(as: setting) }) {
            results.results[index] = setting
        } else {
            results.results.append(setting)
        }
        try save()
    }

    func put(_ compilation: Compilation) throws {
        if let index = results.compilations.firstIndex(where: { $0.model == compilation.model }) {
            results.compilations[index] = compilation
        } else {
            results.compilations.append(compilation)
        }
        try save()
    }

    func finish() throws {
        results.complete = true
        results.endedAt = timestamp()
        try save()
    }

    private func save() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        try encoder.encode(results).write(to: file, options: .atomic)
    }
}

/// The time in UTC, ISO 8601, to the second.
func timestamp() -> String {
    ISO8601DateFormatter().string(from: Date())
}
