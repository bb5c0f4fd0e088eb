/**
 * Injects faults into real servers: a part of the short form of `npm run torture`. torture-kills.test.ts and
 * torture-stores.test.ts have the other parts, which run in parallel.
 */
import { faults, kills, storeFaults } from "../torture/faults.ts";
import { testFaults } from "../torture/short-form.ts";

testFaults(faults.filter((fault) => ![...kills, ...storeFaults].includes(fault)));
