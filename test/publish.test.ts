import { expect, test } from "bun:test";
import { withContent } from "../bench/report.ts";

test("published results replace the earlier ones and nothing else", () => {
  const before = "# Title\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nrest\n";
  const after = "# Title\n<!-- bench:begin -->\nnew\n<!-- bench:end -->\nrest\n";
  expect(withContent(before, "new")).toBe(after);
  expect(withContent(after, "new")).toBe(after);
  expect(() => withContent("# Title\n", "new")).toThrow("bench:begin");
});
