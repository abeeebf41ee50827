import CoreML
import Darwin
import Foundation

#if os(iOS)
import UIKit
import os
#endif

extension Conditions {
    /// The conditions now.
    static func now() async -> Conditions {
        let battery = await Conditions.battery()
        return Conditions(
            thermalState: Conditions.name(ProcessInfo.processInfo.thermalState),
            isLowPower: ProcessInfo.processInfo.isLowPowerModeEnabled,
            footprintBytes: footprint(),
            availableBytes: available(),
            batteryLevel: battery.level,
            isCharging: battery.isCharging)
    }

    /// The memory of the app that counts against its limit, as `phys_footprint`.
    static func footprint() -> UInt64? {
        var info = task_vm_info_data_t()
        let words = MemoryLayout<task_vm_info_data_t>.size / MemoryLayout<integer_t>.size
        var count = mach_msg_type_number_t(words)
        let status = withUnsafeMutablePointer(to: &info) { pointer in
            pointer.withMemoryRebound(to: integer_t.self, capacity: words) { words in
                task_info(mach_task_self_, task_flavor_t(TASK_VM_INFO), words, &count)
            }
        }
        return status == KERN_SUCCESS ? UInt64(info.phys_footprint) : nil
    }

    /// 0 stands for no answer, as in a simulator.
    private static func available() -> UInt64? {
        #if os(iOS)
        let bytes = os_proc_available_memory()
        return bytes > 0 ? UInt64(bytes) : nil
        #else
        return nil
        #endif
    }

    private static func name(_ state: ProcessInfo.ThermalState) -> String {
        switch state {
        case .nominal: return "nominal"
        case .fair: return "fair"
        case .serious: return "serious"
        case .critical: return "critical"
        @unknown default: return "unknown"
        }
    }

    private static func battery() async -> (level: Double?, isCharging: Bool?) {
        #if os(iOS)
        return await MainActor.run {
            UIDevice.current.isBatteryMonitoringEnabled = true
            let level = UIDevice.current.batteryLevel
            let state = UIDevice.current.batteryState
            return (
                level < 0 ? nil : Double(level),
                state == .unknown ? nil : state != .unplugged
            )
        }
        #else
        return (nil, nil)
        #endif
    }
}

extension Device {
    /// This device.
    static func current() -> Device {
        let environment = ProcessInfo.processInfo.environment
        let version = ProcessInfo.processInfo.operatingSystemVersion
        let identifier = environment["SIMULATOR_MODEL_IDENTIFIER"] ?? systemText(Device.identifierKey)
        var cores: Int?
        var units: [String] = []
        for device in MLModel.availableComputeDevices {
            units.append(unitName(device))
            if case .neuralEngine(let engine) = device {
                cores = engine.totalCoreCount
            }
        }
        return Device(
            identifier: identifier,
            processor: systemText("machdep.cpu.brand_string"),
            system: identifier.hasPrefix("iPad") ? "iPadOS" : Device.systemName,
            systemVersion: "\(version.majorVersion).\(version.minorVersion)"
                + (version.patchVersion == 0 ? "" : ".\(version.patchVersion)"),
            build: systemText("kern.osversion"),
            isSimulator: environment["SIMULATOR_MODEL_IDENTIFIER"] != nil,
            isVirtual: systemNumber("kern.hv_vmm_present") == 1,
            cores: ProcessInfo.processInfo.processorCount,
            memoryBytes: ProcessInfo.processInfo.physicalMemory,
            computeDevices: units,
            neuralEngineCores: cores)
    }

    #if os(iOS)
    private static let identifierKey = "hw.machine"
    private static let systemName = "iOS"
    #else
    private static let identifierKey = "hw.model"
    private static let systemName = "macOS"
    #endif

    private static func systemText(_ key: String) -> String {
        var size = 0
        guard sysctlbyname(key, nil, &size, nil, 0) == 0, size > 1 else { return "" }
        var bytes = [CChar](repeating: 0, count: size)
        guard sysctlbyname(key, &bytes, &size, nil, 0) == 0 else { return "" }
        return String(cString: bytes)
    }

    private static func systemNumber(_ key: String) -> Int32 {
        var number: Int32 = 0
        var size = MemoryLayout<Int32>.size
        return sysctlbyname(key, &number, &size, nil, 0) == 0 ? number : 0
    }
}

/// The name of a compute unit in the results.
func unitName(_ device: MLComputeDevice) -> String {
    switch device {
    case .cpu: return "cpu"
    case .gpu: return "gpu"
    case .neuralEngine: return "neural_engine"
    @unknown default: return "unknown"
    }
}

/// Whether the app is behind others, where the system restricts the Neural Engine and the GPU.
final class Background: @unchecked Sendable {
    struct State: Equatable {
        var isBehind = false
        /// How often that changed.
        var changes = 0
    }

    static let shared = Background()
    private let lock = NSLock()
    private var current = State()

    /// Watches what the system says of the app; a command for a Mac is never behind.
    private init() {
        for (name, isBehind) in [
            ("UIApplicationDidEnterBackgroundNotification", true),
            ("UIApplicationWillEnterForegroundNotification", false),
        ] {
            _ = NotificationCenter.default.addObserver(
                forName: Notification.Name(name), object: nil, queue: nil
            ) { [weak self] _ in self?.change(isBehind) }
        }
    }

    var state: State {
        lock.lock()
        defer { lock.unlock() }
        return current
    }

    private func change(_ isBehind: Bool) {
        lock.lock()
        defer { lock.unlock() }
        current = State(isBehind: isBehind, changes: current.changes + 1)
    }
}
