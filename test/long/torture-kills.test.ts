/**
 * Kills and crashes the processes of real servers: one of three parts of the short fault injection. torture.test.ts and
 * torture-stores.test.ts have the other parts.
 */
import { kills } from "../torture/faults.ts";
import { testFaults } from "../torture/short-form.ts";

testFaults(kills);
