/**
 * Faults of disks, clocks and keys of the queue under real servers: one of three parts of the short fault
 * injection. torture.test.ts and torture-kills.test.ts have the other parts.
 */
import { storeFaults } from "../torture/faults.ts";
import { testFaults } from "../torture/short-form.ts";

testFaults(storeFaults);
