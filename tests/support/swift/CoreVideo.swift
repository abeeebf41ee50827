// Stands in for Apple's CoreVideo where that is absent: the parts that the runner uses.

public typealias OSType = UInt32
public typealias CFDictionary = [String: Any]
public typealias CVReturn = Int32
public typealias CVPixelBuffer = CVBuffer

public class CVBuffer {
    let width: Int
    let height: Int
    let format: OSType
    let bytesPerRow: Int
    let address: UnsafeMutableRawPointer

    public init(width: Int, height: Int, format: OSType) {
        self.width = width
        self.height = height
        self.format = format
        bytesPerRow = width * (format == kCVPixelFormatType_OneComponent16Half ? 2 : 4)
        address = .allocate(byteCount: max(bytesPerRow * height, 1), alignment: 64)
    }

    deinit { address.deallocate() }
}

public struct CVPixelBufferLockFlags: OptionSet {
    public var rawValue: UInt64
    public init(rawValue: UInt64) { self.rawValue = rawValue }
}

public let kCVPixelFormatType_OneComponent16Half: OSType = 0x4C30_3068
public let kCVPixelBufferIOSurfacePropertiesKey = "IOSurfaceProperties"
public let kCFAllocatorDefault: Any? = nil
public let kCVReturnSuccess: CVReturn = 0

@discardableResult
public func CVPixelBufferLockBaseAddress(_: CVPixelBuffer, _: CVPixelBufferLockFlags) -> CVReturn { 0 }

@discardableResult
public func CVPixelBufferUnlockBaseAddress(_: CVPixelBuffer, _: CVPixelBufferLockFlags) -> CVReturn { 0 }

public func CVPixelBufferGetBaseAddress(_ buffer: CVPixelBuffer) -> UnsafeMutableRawPointer? { buffer.address }

public func CVPixelBufferGetBytesPerRow(_ buffer: CVPixelBuffer) -> Int { buffer.bytesPerRow }

public func CVPixelBufferGetHeight(_ buffer: CVPixelBuffer) -> Int { buffer.height }

public func CVPixelBufferGetWidth(_ buffer: CVPixelBuffer) -> Int { buffer.width }

public func CVPixelBufferGetPixelFormatType(_ buffer: CVPixelBuffer) -> OSType { buffer.format }

public func CVPixelBufferCreate(
    _: Any?, _ width: Int, _ height: Int, _ format: OSType, _: CFDictionary?,
    _ out: UnsafeMutablePointer<CVPixelBuffer?>
) -> CVReturn {
    out.pointee = CVBuffer(width: width, height: height, format: format)
    return kCVReturnSuccess
}
