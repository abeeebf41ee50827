import CoreML
import CoreVideo
import Foundation

/// Makes synthetic values for the inputs of a model; the same seed makes the same values.
struct Inputs {
    let provider: MLFeatureProvider
    let features: [Feature]

    init(_ descriptions: [String: MLFeatureDescription], known: [String: Request.Input], seed: UInt64) throws {
        var values: [String: MLFeatureValue] = [:]
        var features: [Feature] = []
        for (name, description) in descriptions.sorted(by: { $0.key < $1.key }) {
            var maker = Maker(known: known[name], random: Random(seed: seed, name: name))
            let (value, feature) = try maker.make(description)
            values[name] = value
            features.append(feature)
        }
        provider = try MLDictionaryFeatureProvider(dictionary: values)
        self.features = features
    }
}

/// Uniform pseudo-random numbers: SplitMix64, seeded also by the name of the input.
private struct Random {
    private var state: UInt64

    init(seed: UInt64, name: String) {
        state = seed
        for byte in name.utf8 {
            state = (state ^ UInt64(byte)) &* 0x1000_0000_01B3
        }
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// In [0, 1).
    mutating func fraction() -> Double {
        Double(next() >> 11) / 9_007_199_254_740_992
    }

    mutating func integer(below limit: Int) -> Int {
        Int(next() % UInt64(max(limit, 1)))
    }

    /// The bits of a half-precision number in [0.5, 1), which needs no `Float16`.
    mutating func halfBits() -> UInt16 {
        0x3800 | UInt16(next() & 0x3FF)
    }
}

private struct Maker {
    let known: Request.Input?
    var random: Random

    /// 0 and 1 suit masks, flags and lengths where no table is known to be indexed.
    private var limit: Int { known?.limit ?? 2 }

    mutating func make(_ description: MLFeatureDescription) throws -> (MLFeatureValue, Feature) {
        let name = description.name
        switch description.type {
        case .int64:
            let value = MLFeatureValue(int64: Int64(random.integer(below: limit)))
            return (value, Feature(name: name, kind: "int64", type: "int64", shape: []))
        case .double:
            let value = MLFeatureValue(double: random.fraction())
            return (value, Feature(name: name, kind: "double", type: "double", shape: []))
        case .string:
            let value = MLFeatureValue(string: known?.text ?? "The quick brown fox")
            return (value, Feature(name: name, kind: "string", type: "string", shape: []))
        case .multiArray:
            return try makeArray(description)
        case .image:
            return try makeImage(description)
        case .dictionary:
            return try makeDictionary(description)
        case .sequence:
            return try makeSequence(description)
        default:
            throw RunnerError("the input \(name) is of a type for which no value can be made")
        }
    }

    private mutating func makeArray(_ description: MLFeatureDescription) throws -> (MLFeatureValue, Feature) {
        guard let constraint = description.multiArrayConstraint else {
            throw RunnerError("the input \(description.name) does not describe its array")
        }
        let shape = known?.shape ?? constraint.shape.map { max($0.intValue, 1) }
        let array = try MLMultiArray(shape: shape.map { NSNumber(value: $0) }, dataType: constraint.dataType)
        fill(array)
        let feature = Feature(
            name: description.name, kind: "array", type: typeName(constraint.dataType), shape: shape)
        return (MLFeatureValue(multiArray: array), feature)
    }

    private mutating func fill(_ array: MLMultiArray) {
        let type = array.dataType
        var random = self.random
        let limit = self.limit
        let isIndex = known?.limit != nil
        array.withUnsafeMutableBytes { bytes, _ in
            switch type {
            case .float16:
                for index in bytes.bindMemory(to: UInt16.self).indices {
                    bytes.bindMemory(to: UInt16.self)[index] = isIndex ? 0 : random.halfBits()
                }
            case .float32:
                for index in bytes.bindMemory(to: Float.self).indices {
                    bytes.bindMemory(to: Float.self)[index] =
                        isIndex ? Float(random.integer(below: limit)) : Float(random.fraction())
                }
            case .double:
                for index in bytes.bindMemory(to: Double.self).indices {
                    bytes.bindMemory(to: Double.self)[index] =
                        isIndex ? Double(random.integer(below: limit)) : random.fraction()
                }
            case .int32:
                for index in bytes.bindMemory(to: Int32.self).indices {
                    bytes.bindMemory(to: Int32.self)[index] = Int32(random.integer(below: limit))
                }
            default:
                // Types of newer systems, such as int8: zeros are valid in each.
                for index in bytes.indices {
                    bytes[index] = 0
                }
            }
        }
        self.random = random
    }

    private mutating func makeImage(_ description: MLFeatureDescription) throws -> (MLFeatureValue, Feature) {
        guard let constraint = description.imageConstraint else {
            throw RunnerError("the input \(description.name) does not describe its image")
        }
        let asked = known?.shape ?? []
        let height = asked.count >= 2 ? asked[asked.count - 2] : constraint.pixelsHigh
        let width = asked.count >= 2 ? asked[asked.count - 1] : constraint.pixelsWide
        let format = constraint.pixelFormatType
        let buffer = try makePixelBuffer(width: width, height: height, format: format)
        fill(buffer, isHalf: format == kCVPixelFormatType_OneComponent16Half)
        let feature = Feature(
            name: description.name, kind: "image", type: formatName(format), shape: [height, width])
        return (MLFeatureValue(pixelBuffer: buffer), feature)
    }

    private mutating func fill(_ buffer: CVPixelBuffer, isHalf: Bool) {
        CVPixelBufferLockBaseAddress(buffer, [])
        defer { CVPixelBufferUnlockBaseAddress(buffer, []) }
        guard let address = CVPixelBufferGetBaseAddress(buffer) else { return }
        let size = CVPixelBufferGetBytesPerRow(buffer) * CVPixelBufferGetHeight(buffer)
        if isHalf {
            let pixels = address.bindMemory(to: UInt16.self, capacity: size / 2)
            for index in 0..<size / 2 {
                pixels[index] = random.halfBits()
            }
        } else {
            let bytes = address.bindMemory(to: UInt8.self, capacity: size)
            for index in 0..<size {
                bytes[index] = UInt8(truncatingIfNeeded: random.next())
            }
        }
    }

    private func makeDictionary(_ description: MLFeatureDescription) throws -> (MLFeatureValue, Feature) {
        let isInteger = description.dictionaryConstraint?.keyType == .int64
        var values: [AnyHashable: NSNumber] = [:]
        for (key, value) in known?.dictionary ?? (isInteger ? ["0": 1] : ["fox": 1]) {
            if isInteger, let number = Int64(key) {
                values[NSNumber(value: number)] = NSNumber(value: value)
            } else {
                values[key] = NSNumber(value: value)
            }
        }
        let type = isInteger ? "int64" : "string"
        let feature = Feature(name: description.name, kind: "dictionary", type: type, shape: [values.count])
        return (try MLFeatureValue(dictionary: values), feature)
    }

    private func makeSequence(_ description: MLFeatureDescription) throws -> (MLFeatureValue, Feature) {
        guard let constraint = description.sequenceConstraint else {
            throw RunnerError("the input \(description.name) does not describe its sequence")
        }
        let count = max(constraint.countRange.location, 1)
        switch constraint.valueDescription.type {
        case .int64:
            let values = known?.integers ?? Array(repeating: 1, count: count)
            let feature = Feature(
                name: description.name, kind: "sequence", type: "int64", shape: [values.count])
            return (MLFeatureValue(sequence: MLSequence(int64s: values.map { NSNumber(value: $0) })), feature)
        case .string:
            let values = known?.strings ?? Array(repeating: "fox", count: count)
            let feature = Feature(
                name: description.name, kind: "sequence", type: "string", shape: [values.count])
            return (MLFeatureValue(sequence: MLSequence(strings: values)), feature)
        default:
            throw RunnerError(
                "the input \(description.name) is a sequence of a type for which no value can be made")
        }
    }
}

/// A pixel buffer on a surface that compute units can share.
func makePixelBuffer(width: Int, height: Int, format: OSType) throws -> CVPixelBuffer {
    var buffer: CVPixelBuffer?
    let attributes = [kCVPixelBufferIOSurfacePropertiesKey as String: [String: Any]()] as CFDictionary
    let status = CVPixelBufferCreate(kCFAllocatorDefault, width, height, format, attributes, &buffer)
    guard status == kCVReturnSuccess, let made = buffer else {
        throw RunnerError("an image of \(width) × \(height) pixels cannot be made (code \(status))")
    }
    return made
}

func typeName(_ type: MLMultiArrayDataType) -> String {
    switch type {
    case .float16: return "float16"
    case .float32: return "float32"
    case .double: return "float64"
    case .int32: return "int32"
    default: return "type \(type.rawValue)"
    }
}

/// `BGRA`, `L008`: the four characters of a pixel format, or its number.
private func formatName(_ format: OSType) -> String {
    let bytes = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: format >> UInt32($0)) }
    guard bytes.allSatisfy({ (32..<127).contains($0) }) else { return String(format) }
    return String(decoding: bytes, as: UTF8.self)
}
