import { describe, expect, it } from "vitest";
import { goldenProfile } from "../fixtures";

/** What `data/profile.ts` declares, held against the JSON that Python writes. */
describe("the JSON of a profile", () => {
  const profile = goldenProfile();
  const count = profile.ops.id.length;

  it("names its schema", () => {
    expect(profile.schema).toBe("coremlscope.profile/1");
    expect(profile.model.schema).toBe("coremlscope.model/1");
  });

  it("has op columns of equal length", () => {
    for (const [name, column] of Object.entries(profile.ops)) expect(column, name).toHaveLength(count);
  });

  it("has the columns that the page requires", () => {
    expect(Object.keys(profile.ops)).toEqual(
      expect.arrayContaining([
        ...["id", "type", "name", "function", "outputs", "flops", "read_bytes", "written_bytes", "weight_bytes", "group", "status"],
        ...["work_is_complete", "layer", "layer_type", "inputs", "live_bytes", "kernel"],
      ]),
    );
  });

  it("points from operations to groups and back", () => {
    profile.groups.forEach((group, index) => {
      for (const id of group.op_ids) expect(profile.ops.group[profile.ops.id.indexOf(id)]).toBe(index);
    });
  });

  it("has plans with a column entry for each operation", () => {
    for (const plan of profile.plans ?? []) {
      const columns = count + plan.inserted.length;
      for (const column of [...Object.values(plan.supported), ...Object.values(plan.cost_ms), plan.why, plan.advice])
        expect(column).toHaveLength(columns);
      for (const setting of plan.settings) expect(setting.backend).toHaveLength(columns);
    }
  });

  it("has phases with samples and their statistics", () => {
    for (const phase of [profile.compile, profile.load, profile.predict]) {
      expect(phase.origin).toBe("measured");
      expect(phase.statistics.count).toBe(phase.samples_s.length);
      expect(phase.statistics.max).toBe(Math.max(...phase.samples_s));
    }
  });
});
