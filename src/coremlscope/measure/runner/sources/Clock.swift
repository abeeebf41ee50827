import Dispatch

/// A moment of the clock that stops while the device sleeps.
struct Moment {
    private let nanoseconds = DispatchTime.now().uptimeNanoseconds

    /// Seconds since this moment.
    var elapsed: Double {
        Double(DispatchTime.now().uptimeNanoseconds - nanoseconds) / 1e9
    }
}
