import Foundation

/// What was measured: the file `Documents/results.json`, which `coremlscope import` reads.
struct Results: Codable {
    static let schema = "coremlscope.runner/1"

    var schema: String
    /// The id of the request.
    var id: String
    var version: String
    var device: Device
    /// How often the app was started for this request; each start after the first follows a crash or a stop.
    var launches: Int
    var startedAt: String
    var endedAt: String
    var complete: Bool
    var compilations: [Compilation]
    var results: [Setting]

    enum CodingKeys: String, CodingKey {
        case schema, id, version, device, launches, complete, compilations, results
        case startedAt = "started_at"
        case endedAt = "ended_at"
    }
}

/// The device and its system.
struct Device: Codable {
    /// Apple's identifier: `iPhone16,1`, `Mac14,2`.
    var identifier: String
    /// The name of the processor, where the system says it.
    var processor: String
    var system: String
    var systemVersion: String
    var build: String
    var isSimulator: Bool
    var isVirtual: Bool
    var cores: Int
    var memoryBytes: UInt64
    /// The compute units that Core ML can use.
    var computeDevices: [String]
    var neuralEngineCores: Int?

    enum CodingKeys: String, CodingKey {
        case identifier, processor, system, build, cores
        case systemVersion = "system_version"
        case isSimulator = "is_simulator"
        case isVirtual = "is_virtual"
        case memoryBytes = "memory_bytes"
        case computeDevices = "compute_devices"
        case neuralEngineCores = "neural_engine_cores"
    }
}

/// `running` until it ends; what a start of the app finds running has crashed.
enum Status: String, Codable {
    case running, done, failed, crashed
}

/// A failure in one step.
struct Failure: Codable {
    var step: String
    var text: String
    var domain: String
    var code: Int

    init(_ step: String, _ error: Error) {
        let known = error as NSError
        self.step = step
        text = Failure.describe(known)
        domain = known.domain
        code = known.code
    }

    init(_ step: String, text: String) {
        self.step = step
        self.text = text
        domain = "coremlscope"
        code = 0
    }

    /// The description of an error and of those that caused it, each once.
    private static func describe(_ error: NSError) -> String {
        var texts: [String] = []
        var next: NSError? = error
        while let current = next, texts.count < 4 {
            let text = current.localizedDescription
            if !texts.contains(where: { $0.contains(text) }) {
                texts.append(text)
            }
            next = current.userInfo[NSUnderlyingErrorKey] as? NSError
        }
        return texts.joined(separator: " / ")
    }
}

/// The compilations of a model on the device. A compiled model is used as it is.
struct Compilation: Codable {
    var model: String
    var status: Status
    var samplesS: [Double]
    var failure: Failure?

    enum CodingKeys: String, CodingKey {
        case model, status, failure
        case samplesS = "samples_s"
    }
}

/// The state of the device at one moment.
struct Conditions: Codable {
    /// `nominal`, `fair`, `serious`, `critical`.
    var thermalState: String
    var isLowPower: Bool
    /// The memory of the app that counts against its limit.
    var footprintBytes: UInt64?
    /// The memory that the app may still take; only on iPhone and iPad.
    var availableBytes: UInt64?
    var batteryLevel: Double?
    var isCharging: Bool?

    enum CodingKeys: String, CodingKey {
        case thermalState = "thermal_state"
        case isLowPower = "is_low_power"
        case footprintBytes = "footprint_bytes"
        case availableBytes = "available_bytes"
        case batteryLevel = "battery_level"
        case isCharging = "is_charging"
    }
}

/// An input and the form of the value that was made for it.
struct Feature: Codable {
    var name: String
    var kind: String
    var type: String
    var shape: [Int]
}

/// Predictions into buffers that the app provides.
struct Backings: Codable {
    var samplesS: [Double]
    /// The outputs that Core ML wrote into the app's buffers, and those for which it used its own.
    var used: [String]
    var ignored: [String]

    enum CodingKeys: String, CodingKey {
        case used, ignored
        case samplesS = "samples_s"
    }
}

/// Predictions of which several are in flight at the same time.
struct Throughput: Codable {
    var inFlight: Int
    var predictions: Int
    var wallS: Double

    enum CodingKeys: String, CodingKey {
        case predictions
        case inFlight = "in_flight"
        case wallS = "wall_s"
    }
}

/// An operation of a program, or a layer of a neural network, as Core ML's plan has it.
struct PlannedOperation: Codable {
    /// The function; in a pipeline with the name of the stage in front.
    var function: String
    var type: String
    var outputs: [String]
    /// Its number in its block; in a nested block after those of the operation and of the block around it.
    var place: [Int]
    /// The name of a layer of a neural network.
    var layer: String?
    var preferred: String?
    var supported: [String]
    /// Its share in the estimated cost.
    var cost: Double?
}

/// A model under one setting of compute units in one power mode.
struct Setting: Codable {
    var model: String
    var function: String
    var computeUnits: String
    var powerMode: String
    var status: Status
    /// The step that runs, or that ran last.
    var step: String
    /// All failures. Those of the steps `async`, `throughput`, `backings` and `plan` leave the others valid.
    var failures: [Failure] = []
    var before: Conditions?
    var after: Conditions?
    var inputs: [Feature] = []
    var isStateful = false
    var firstLoadS: Double?
    var loadS: [Double] = []
    var warmupS: [Double] = []
    var predictS: [Double] = []
    var asyncS: [Double] = []
    var throughput: Throughput?
    var backings: Backings?
    /// The largest memory footprint of the app that was seen between steps and predictions.
    var largestFootprintBytes: UInt64?
    var plan: [PlannedOperation]?
    /// By step, the places of samples during which the app was in the background.
    var inBackground: [String: [Int]]?
    var measuredAt = ""

    enum CodingKeys: String, CodingKey {
        case model, function, status, step, failures, before, after, inputs, throughput, backings, plan
        case computeUnits = "compute_units"
        case powerMode = "power_mode"
        case isStateful = "is_stateful"
        case firstLoadS = "first_load_s"
        case loadS = "load_s"
        case warmupS = "warmup_s"
        case predictS = "predict_s"
        case asyncS = "async_s"
        case largestFootprintBytes = "largest_footprint_bytes"
        case inBackground = "in_background"
        case measuredAt = "measured_at"
    }

    init(model: String, function: String, computeUnits: String, powerMode: String) {
        self.model = model
        self.function = function
        self.computeUnits = computeUnits
        self.powerMode = powerMode
        status = .running
        step = "load"
    }

    func isSame(as other: Setting) -> Bool {
        model == other.model && function == other.function && computeUnits == other.computeUnits
            && powerMode == other.powerMode
    }
}
