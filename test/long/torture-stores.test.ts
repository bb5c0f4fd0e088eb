/**
 * Faults of disks, clocks, upgrades and keys of the queue under real servers: a part of the short fault injection (torture.test.ts
 * has the others).
 */
import { storeFaults } from "../torture/faults.ts";
import { testFaults } from "../torture/short-form.ts";

testFaults(storeFaults);
