// Stands in for Apple's UIKit where that is absent: the parts that the runner uses.

@MainActor public class UIDevice {
    public enum BatteryState { case unknown, unplugged, charging, full }

    public static var current: UIDevice { UIDevice() }
    public var isBatteryMonitoringEnabled = false
    public var batteryLevel: Float { 0 }
    public var batteryState: BatteryState { .unknown }
}

@MainActor public class UIApplication {
    public static var shared: UIApplication { UIApplication() }
    public var isIdleTimerDisabled = false
}
