/**
 * Injects faults into real servers: the first half of the short form of `npm run torture`. The other half,
 * torture-kills.test.ts, runs in parallel.
 */
import { faults, kills } from "./torture/faults.ts";
import { testFaults } from "./torture/short-form.ts";

testFaults(faults.filter((fault) => !kills.includes(fault)));
