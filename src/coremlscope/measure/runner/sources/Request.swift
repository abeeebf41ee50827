import Foundation

/// What is to be measured: the file `Payload/request.json`, which `coremlscope runner` writes.
struct Request: Codable {
    static let schema = "coremlscope.runner-request/1"

    struct Model: Codable {
        /// The name of the model in the results.
        var name: String
        /// Its file, relative to the folder of the request: a package, a model file or a compiled model.
        var path: String
        /// The functions to measure; an empty name is the default function.
        var functions: [String]
        /// What is known about inputs, by name.
        var inputs: [String: Input]
    }

    /// What is known about the value of an input. Absent parts follow from the model's own description.
    struct Input: Codable {
        var shape: [Int]?
        /// Values are integers below this limit, because they index a table.
        var limit: Int?
        var text: String?
        var dictionary: [String: Double]?
        var strings: [String]?
        var integers: [Int]?
    }

    var schema: String
    var id: String
    /// The version of coremlscope that wrote the request.
    var version: String
    var models: [Model]
    var computeUnits: [String]
    /// `normal`, `low power`; empty for the mode in which the device is.
    var powerModes: [String]
    /// Seconds to wait until the power mode is changed by hand.
    var powerWaitS: Double
    var compiles: Int
    var loads: Int
    var warmups: Int
    var iterations: Int
    /// Predictions that are in flight at the same time when throughput is measured.
    var inFlight: Int
    var seed: UInt64

    enum CodingKeys: String, CodingKey {
        case schema, id, version, models, compiles, loads, warmups, iterations, seed
        case computeUnits = "compute_units"
        case powerModes = "power_modes"
        case powerWaitS = "power_wait_s"
        case inFlight = "in_flight"
    }

    static func read(_ payload: URL) throws -> Request {
        let data = try Data(contentsOf: payload.appendingPathComponent("request.json"))
        let request = try JSONDecoder().decode(Request.self, from: data)
        guard request.schema == schema else {
            throw RunnerError("the request has the schema \(request.schema), and this app reads \(schema)")
        }
        return request
    }
}

/// An error of the runner itself.
struct RunnerError: Error, LocalizedError {
    var text: String

    init(_ text: String) {
        self.text = text
    }

    var errorDescription: String? { text }
}
