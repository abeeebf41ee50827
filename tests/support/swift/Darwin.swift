// Stands in for Apple's Darwin where that is absent: the parts that the runner uses.

public typealias integer_t = Int32
public typealias mach_msg_type_number_t = UInt32
public typealias task_flavor_t = UInt32
public typealias kern_return_t = Int32

public struct task_vm_info_data_t {
    public var phys_footprint: UInt64 = 0
    public init() {}
}

public var mach_task_self_: UInt32 { 0 }
public let TASK_VM_INFO: Int32 = 22
public let KERN_SUCCESS: Int32 = 0

/// 3 MB: the first number of the structure.
public func task_info(
    _: UInt32, _: task_flavor_t, _ words: UnsafeMutablePointer<integer_t>,
    _: UnsafeMutablePointer<mach_msg_type_number_t>
) -> kern_return_t {
    words[0] = 3_000_000
    return KERN_SUCCESS
}

private let texts = [
    "hw.model": "Mac14,2", "machdep.cpu.brand_string": "Apple M2", "kern.osversion": "24C101",
]

public func sysctlbyname(
    _ name: UnsafePointer<CChar>, _ out: UnsafeMutableRawPointer?, _ size: UnsafeMutablePointer<Int>?,
    _: UnsafeMutableRawPointer?, _: Int
) -> Int32 {
    guard let text = texts[String(cString: name)] else { return -1 }
    let bytes = Array(text.utf8CString)
    size?.pointee = bytes.count
    out?.copyMemory(from: bytes, byteCount: bytes.count)
    return 0
}
