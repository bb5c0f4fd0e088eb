import { expect, test } from "bun:test";
import { LeadTime } from "../src/engine/batch-slot.ts";

test("the lead time of a dispatch shrinks to its minimum in the seconds after the event loop was busy", () => {
  const lead = new LeadTime();
  lead.woke(100, 109);
  expect(lead.ms(1000)).toBe(11);
  lead.ran(12, 15, 1100);
  expect([1500, 2500, 4500].map((nowMs) => lead.ms(nowMs))).toEqual([14, 5, 2]);
});
