/**
 * Kills and crashes the processes of real servers: the second half of the short fault injection (torture.test.ts has
 * the first).
 */
import { kills } from "./torture/faults.ts";
import { testFaults } from "./torture/short-form.ts";

testFaults(kills);
