/** Kills and crashes the processes of real servers: a part of the short fault injection (torture.test.ts has the others). */
import { kills } from "../torture/faults.ts";
import { testFaults } from "../torture/short-form.ts";

testFaults(kills);
