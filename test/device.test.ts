/** The device that is asked for, and what is said when it is not there. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { resolveDevice } from "../src/engine/device.ts";
import { cli } from "./helpers/cli.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { tempDir } from "./helpers/temp-dir.ts";

setDefaultTimeout(60_000);

const asked = (operator: string | undefined, author?: string) => ({ operator, author });

test.each([
  ["auto", 0, "cpu"],
  ["auto", 2, "cuda:0"],
  ["cpu", 2, "cpu"],
  ["cuda", 1, "cuda:0"],
  ["cuda:1", 2, "cuda:1"],
])("%s with %d GPUs is %s", (device, count, resolved) => {
  expect(resolveDevice(asked(device), count)).toBe(resolved);
  expect(resolveDevice(asked(undefined, device), count)).toBe(resolved);
});

test("the operator's device goes before the author's; without both it is auto", () => {
  expect(resolveDevice(asked("cpu", "cuda"), 1)).toBe("cpu");
  expect(resolveDevice(asked(undefined), 1)).toBe("cuda:0");
});

test.each([
  ["cuda", 0, "no device cuda: there is no usable GPU here; use --device cpu or auto"],
  ["cuda:3", 1, "no device cuda:3: there is cuda:0 alone; use one of these, --device cpu or auto"],
  ["cuda:3", 3, "no device cuda:3: there are cuda:0 to cuda:2; use one of these, --device cpu or auto"],
])("%s with %d GPUs is refused", (device, count, message) => {
  expect(() => resolveDevice(asked(device), count)).toThrow(message);
});

test("serve refuses a device that is not there in one line, whoever asked for it; the model can be built without", async () => {
  await using dir = await tempDir();
  const env = { SCONCE_HOME: dir.join("home") };
  const built = await cli(["build", await writeModel(dir, modelText({ device: '"cuda:98"' }))], { env });
  expect(built.code).toBe(0);
  expect(built.stderr).toContain("The model declares the device cuda:98, which is not here: it is tried on another");
  const serve = (...args: string[]) =>
    cli(["serve", "small", "--host", "127.0.0.1", "-p", "0", "--log-level", "error", ...args], { env });
  const own = await serve();
  expect(own.stderr).toMatch(
    /^sconce: no device cuda:98, which the model declares: there .+; use .*--device cpu or auto\n$/,
  );
  expect(own.code).toBe(1);
  const operators = await serve("--device", "cuda:99");
  expect(operators.stderr).toMatch(/^sconce: no device cuda:99: there .+; use .*--device cpu or auto\n$/);
  expect(operators.code).toBe(1);
});
