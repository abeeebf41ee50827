import CoreML
import Foundation

/// Core ML's plan of a compiled model, operation by operation.
@available(iOS 17.4, macOS 14.4, *)
struct Plan {
    private let plan: MLComputePlan
    private let function: String
    private(set) var operations: [PlannedOperation] = []

    /// - Parameter function: The function that the configuration names; empty for the default one.
    static func load(_ model: URL, _ configuration: MLModelConfiguration, function: String) async throws -> Plan {
        let loaded = try await MLComputePlan.load(contentsOf: model, configuration: configuration)
        var plan = Plan(plan: loaded, function: function)
        plan.add(loaded.modelStructure, stage: "")
        return plan
    }

    private init(plan: MLComputePlan, function: String) {
        self.plan = plan
        self.function = function
    }

    private mutating func add(_ structure: MLModelStructure, stage: String) {
        switch structure {
        case .program(let program):
            for (name, body) in program.functions.sorted(by: { $0.key < $1.key }) where isPlanned(name, program) {
                add(body.block, function: path(stage, name), above: [])
            }
        case .neuralNetwork(let network):
            for (index, layer) in network.layers.enumerated() {
                add(layer, function: path(stage, "main"), place: index)
            }
        case .pipeline(let pipeline):
            for (name, model) in zip(pipeline.subModelNames, pipeline.subModels) {
                add(model, stage: path(stage, name))
            }
        default:
            break
        }
    }

    /// Core ML plans the function of the configuration; of several functions the others have no usage.
    private func isPlanned(_ name: String, _ program: MLModelStructure.Program) -> Bool {
        if program.functions.count == 1 { return true }
        if !function.isEmpty { return name == function }
        return name == "main" || program.functions["main"] == nil
    }

    private mutating func add(_ block: MLModelStructure.Program.Block, function: String, above: [Int]) {
        for (index, operation) in block.operations.enumerated() {
            let place = above + [index]
            if !operation.operatorName.hasSuffix("const") {
                let usage = plan.deviceUsage(for: operation)
                operations.append(
                    PlannedOperation(
                        function: function,
                        type: operation.operatorName,
                        outputs: operation.outputs.map(\.name),
                        place: place,
                        layer: nil,
                        preferred: usage.map { unitName($0.preferred) },
                        supported: (usage?.supported ?? []).map(unitName),
                        cost: plan.estimatedCost(of: operation).flatMap { cost in
                            // JSON has no other numbers, and one of them would cost all results.
                            cost.weight.isFinite ? cost.weight : nil
                        }))
            }
            for (number, nested) in operation.blocks.enumerated() {
                add(nested, function: function, above: place + [number])
            }
        }
    }

    private mutating func add(_ layer: MLModelStructure.NeuralNetwork.Layer, function: String, place: Int) {
        let usage = plan.deviceUsage(for: layer)
        operations.append(
            PlannedOperation(
                function: function,
                type: layer.type,
                outputs: layer.outputNames,
                place: [place],
                layer: layer.name,
                preferred: usage.map { unitName($0.preferred) },
                supported: (usage?.supported ?? []).map(unitName),
                cost: nil))
    }

    private func path(_ stage: String, _ name: String) -> String {
        stage.isEmpty ? name : "\(stage)/\(name)"
    }
}
