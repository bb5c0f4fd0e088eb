/** Injects faults into real servers. A separate file, torture-kills.test.ts, kills processes in parallel. */
import { faults, kills } from "./torture/faults.ts";
import { testFaults } from "./torture/short-form.ts";

testFaults(faults.filter((fault) => !kills.includes(fault)));
