// Stands in for Apple's SwiftUI where that is absent: the parts that the runner uses.

public protocol View { associatedtype Body; @MainActor var body: Body { get } }
extension Never: View { public var body: Never { fatalError() } }
public protocol Scene { associatedtype Body: Scene; @MainActor var body: Body { get } }
@MainActor public protocol App { associatedtype Body: Scene; @MainActor var body: Body { get }; init(); static func main() }
extension App { public static func main() {} }
extension Never: Scene {}
public struct WindowGroup<Content: View>: Scene { public init(@ViewBuilder content: () -> Content) {}; public var body: Never { fatalError() } }
@resultBuilder public struct ViewBuilder { public static func buildBlock<C: View>(_ c: C) -> C { c } }
public struct ScrollView<C: View>: View { public init(@ViewBuilder content: () -> C) {}; public var body: Never { fatalError() } }
public struct Text: View { public init(_ s: String) {}; public var body: Never { fatalError() } }
public struct Font { public enum TextStyle { case footnote }; public enum Design { case monospaced }
  public static func system(_ s: TextStyle, design: Design? = nil) -> Font { Font() } }
public enum Alignment { case leading }
public struct Modified: View { public var body: Never { fatalError() } }
extension View {
  public func font(_ f: Font?) -> some View { Modified() }
  public func frame(maxWidth: Double? = nil, alignment: Alignment = .leading) -> some View { Modified() }
  public func padding() -> some View { Modified() }
  public func task(_ a: @escaping @MainActor () async -> Void) -> some View { Modified() }
}
public protocol ObservableObject: AnyObject {}
@propertyWrapper public struct Published<V> { public var wrappedValue: V; public init(wrappedValue: V) { self.wrappedValue = wrappedValue } }
@MainActor @propertyWrapper public struct StateObject<V: ObservableObject> { public var wrappedValue: V; public init(wrappedValue t: @autoclosure @escaping () -> V) { wrappedValue = t() } }
