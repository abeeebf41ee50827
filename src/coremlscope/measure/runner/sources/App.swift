import Foundation

#if os(iOS)
import SwiftUI
import UIKit

/// The app: it measures as soon as it is opened, and shows what it does.
@main
struct RunnerApp: App {
    @StateObject private var screen = Screen()

    var body: some Scene {
        WindowGroup {
            ScrollView {
                Text(screen.text)
                    .font(.system(.footnote, design: .monospaced))
                    .frame(maxWidth: .infinity, alignment: .leading)
                    .padding()
            }
            .task { screen.start() }
        }
    }
}

@MainActor
final class Screen: ObservableObject {
    private static let longest = 200
    @Published private(set) var text = "coremlscope"
    private var lines: [String] = []
    private var isStarted = false

    func start() {
        guard !isStarted else { return }
        isStarted = true
        UIApplication.shared.isIdleTimerDisabled = true
        Task.detached(priority: .userInitiated) {
            let isGood = await runRequest(
                payload: Bundle.main.url(forResource: "Payload", withExtension: nil),
                documents: FileManager.default.urls(for: .documentDirectory, in: .userDomainMask)[0],
                show: { text in Task { @MainActor in self.show(text) } })
            await MainActor.run { self.end(isGood) }
        }
    }

    private func show(_ line: String) {
        if lines.last != line {
            lines = Array((lines + [line]).suffix(Screen.longest))
        }
        text = lines.joined(separator: "\n")
    }

    /// With `--exit` the app ends, which tells the Mac that started it that the results are complete.
    private func end(_ isGood: Bool) {
        UIApplication.shared.isIdleTimerDisabled = false
        if CommandLine.arguments.contains("--exit") {
            exit(isGood ? 0 : 1)
        }
    }
}
#else

/// The command for a Mac: `swift run -c release CoreMLScopeRunner [PAYLOAD [RESULTS]]`.
@main
struct RunnerCommand {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        let folder = URL(fileURLWithPath: FileManager.default.currentDirectoryPath)
        let payload = arguments.first.map { URL(fileURLWithPath: $0) }
        let documents = arguments.dropFirst().first.map { URL(fileURLWithPath: $0) }
        let isGood = await runRequest(
            payload: payload ?? folder.appendingPathComponent("Payload"),
            documents: documents ?? folder.appendingPathComponent("Results"),
            show: { _ in })
        exit(isGood ? 0 : 1)
    }
}
#endif

/// Carries out a request; false where it could not be carried out at all.
private func runRequest(
    payload: URL?, documents: URL, show: @escaping (String) -> Void
) async -> Bool {
    // Whoever listens may go away; the app goes on.
    signal(SIGPIPE, SIG_IGN)
    func tell(_ message: Message) {
        try? FileHandle.standardOutput.write(contentsOf: Data(message.line.utf8))
        show(message.text)
    }
    do {
        guard let payload else { throw RunnerError("the app holds no folder Payload") }
        try await Run(payload: payload, documents: documents, tell: tell).start()
        return true
    } catch {
        tell(Message("failed", error.localizedDescription))
        return false
    }
}
