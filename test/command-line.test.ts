/** The command line: accepted and refused arguments, and what the commands print. */
import { describe, expect, test } from "bun:test";
import { cp } from "node:fs/promises";
import { runCommand } from "citty";
import { version } from "../package.json";
import { build } from "../src/cli/commands/build.ts";
import { models } from "../src/cli/commands/models.ts";
import { serve } from "../src/cli/commands/serve.ts";
import { ModelStore } from "../src/package/store/store.ts";
import { failureOf } from "./helpers/failure.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { modelFolder, storeWith } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab"));

/** Runs a wrong command: it must print a single line on standard error only, and exit with 2. @returns that line */
async function usageFault(args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await store.cli(args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  expect(stderr).toMatch(/^sconce: .+\n$/);
  return stderr;
}

/** Standard error of a wrong call of `serve`, which must exit with 2. */
async function faultHere(args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const { code, stderr } = await store.cliHere(["serve", ...args], { env });
  expect(code).toBe(2);
  return stderr;
}

describe("a wrong call is refused:", () => {
  test.each([
    ["serve", ["--batch-size", "0"], ["--batch-size must be a whole number from 1 to 65536", 'not "0"']],
    ["serve", ["--batch-size=16.5"], ["--batch-size must be a whole number", 'not "16.5"']],
    ["serve", ["--batchsize", "4"], ["unknown option --batchsize", "did you mean --batch-size?"]],
    ["serve", ["--bath-size", "4"], ["unknown option --bath-size", "did you mean --batch-size?"]],
    ["serve", ["-q"], ["unknown option -q"]],
    ["serve", ["--port", "70000"], ["--port must be a whole number from 0 to 65535", 'not "70000"']],
    ["serve", ["-p", "http"], ["--port must be a whole number", 'not "http"']],
    ["serve", ["--port"], ["--port must be a whole number"]],
    ["serve", ["--host", ""], ["--host must be an address"]],
    ["serve", ["--timeout", "-1"], ["--timeout must be a number"]],
    ["serve", ["--timeout", "3000000"], ["--timeout must be a number from 0.001 to 2147483", 'not "3000000"']],
    ["serve", ["--max-body-bytes", "1TB"], ["--max-body-bytes must be a number of bytes"]],
    ["serve", ["--log-level", "loud"], ["--log-level must be one of trace, debug, info, warning, error"]],
    ["serve", ["--device", "tpu"], ['--device must be "auto", "cpu", "cuda"', 'not "tpu"']],
    ["serve", ["--device", "cpu,cpu"], ["--device must name cpu once", "use --instances"]],
    ["serve", ["Lab"], ['did you mean "lab"?']],
    ["build", ["no-such-folder"], ["there is no no-such-folder; expected a model's folder, or a file of weights"]],
    ["build", ["--tag"], ["--tag must be NAME, NAME:TAG or :TAG"]],
    [
      "build",
      ["--input", "x=float32[N,4]", "--input", "y=float32[N"],
      ["--input must be NAME=DTYPE[SIZES]", ', not "y=float32[N"'],
    ],
    ["build", ["--tag", ":a b"], ['":a b"']],
    ["build", ["-t", "Digits"], ['did you mean "digits"?']],
    ["serve", ["--model=lab"], ["unknown option --model"]],
    ["serve", ["--no-port"], ["unknown option --no-port"]],
    ["models", ["--json=maybe"], ['--json must be "true" or "false", not "maybe"']],
    ["models", ["lab"], ['unexpected argument "lab"']],
    ["models", ["--", "--help"], ['unexpected argument "--help"']],
  ] as const)("sconce %s %j", async (name, args, parts) => {
    const { code, message } = await failureOf(runCommand({ serve, build, models }[name], { rawArgs: [...args] }));
    expect(code).toBe("usage");
    for (const part of parts) expect(message).toContain(part);
  });

  test.each([
    [["serve", "--batch-size", "0"], "--batch-size must be"],
    [["tag", "lab"], "missing argument TARGET (see --help)"],
    [["toString"], "unknown command toString"],
    [["serv"], "unknown command serv; did you mean serve?"],
    [["--verison"], "unknown option --verison"],
  ])("%j ends with one line and exit code 2", async (args, part) => {
    expect(await usageFault(args)).toContain(part);
  });

  test.each(["test/models/lab", "test/models/lab/"])(
    "the folder %s where a model is served, with the commands for folders",
    async (folder) => {
      const { code, stderr } = await store.cliHere(["serve", folder]);
      expect(code).not.toBe(0);
      expect(stderr).toMatch(/^sconce: .+\n$/);
      expect(stderr).toContain(`sconce build ${folder} packages it, sconce dev ${folder} serves it as it is`);
    },
  );

  test("a bad value of a variable is refused with the variable's name", async () => {
    const line = await faultHere([], { SCONCE_BATCH_SIZE: "many" });
    expect(line).toContain('SCONCE_BATCH_SIZE must be a whole number from 1 to 65536, not "many"');
  });
});

describe("a flag", () => {
  test("--port takes precedence over SCONCE_PORT, and SCONCE_PORT over PORT", async () => {
    expect(await faultHere(["--port", "x"], { PORT: "y" })).toContain("--port");
    expect(await faultHere([], { SCONCE_PORT: "x", PORT: "y" })).toContain("SCONCE_PORT must be");
    expect(await faultHere([], { PORT: "y" })).toContain("PORT must be a whole number");
  });

  test("a Kubernetes service named sconce sets no option: its links have the names of variables of options", async () => {
    const link = "tcp://10.0.0.1:3000";
    const { stderr } = await store.cliHere(["serve", "none"], {
      env: { SCONCE_PORT: link, PORT: link, SCONCE_ADMIN_PORT: link },
    });
    expect(stderr).toContain("none");
    expect(await faultHere([], { SCONCE_PORT: link, PORT: "y" })).toMatch(/\bPORT /);
  });

  test("--log-level debug adds the stack to an error", async () => {
    expect((await store.cli(["serve", "none"])).stderr.split("\n").length).toBe(2);
    expect((await store.cli(["serve", "none", "--log-level", "debug"])).stderr).toMatch(/^sconce: .*\n(.*\n)*.*\bat /);
  });
});

test("help is shown even if other arguments are wrong", async () => {
  expect((await store.cli(["serve", "--port", "x", "-h"])).code).toBe(0);
});

test("--version prints the version", async () => {
  expect(await store.cli(["--version"])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
});

describe("build", () => {
  const own = fixture(() => storeWith());
  const built = (...args: string[]) => own.cliHere(["build", "--allow-random", ...args]);

  test("prints repo:tag last, and the same tag for the same content", async () => {
    const args = ["build", "--allow-random", modelFolder("lab")];
    const first = await own.cli(args);
    const second = await built(modelFolder("lab"));
    expect(first.stdout.trim().split("\n").at(-1)).toMatch(/^lab:[0-9a-f]{12}$/);
    expect(second.stdout).toBe(first.stdout);
  });

  test("builds the working directory by default; the folder's name does not change the tag", async () => {
    await using copy = await tempDir();
    await cp(modelFolder("lab"), copy.path, { recursive: true });
    const { stdout } = await own.cliHere(["build", "--allow-random"], { cwd: copy.path });
    expect(stdout).toBe((await built(modelFolder("lab"))).stdout);
  });

  test("with --no-latest tags latest only if the model has no other build", async () => {
    await using folder = await tempDir();
    await using own = await storeWith();
    const built = async (description: string, ...args: string[]) => {
      await writeModel(folder, modelText({ description: JSON.stringify(description) }));
      const { stdout } = await own.cliHere(["build", folder.path, ...args]);
      return stdout.trim();
    };
    const latest = async () => (await new ModelStore(own.home).resolve("small")).config.description;
    expect(await built("first", "--no-latest")).toMatch(/^small:[0-9a-f]{12}$/);
    expect(await latest()).toBe("first");
    const other = await built("second", "--no-latest", "-t", ":fast");
    expect([await latest(), other]).toEqual(["first", "small:fast"]);
    await built("third");
    expect(await latest()).toBe("third");
  });

  test("-t sets name and tag of the model, as in docker build", async () => {
    const { stdout } = await built(modelFolder("lab"), "-t", "team/lab:v1");
    expect(stdout).toBe("team/lab:v1\n");
    const listed = JSON.parse((await own.cliHere(["models", "--json"])).stdout);
    expect(listed).toContainEqual(
      expect.objectContaining({
        repository: "team/lab",
        tags: [expect.stringMatching(/^[0-9a-f]{12}$/), "latest", "v1"],
      }),
    );
  });
});

describe("models", () => {
  test("prints a table", async () => {
    const { code, stdout } = await store.cliHere(["models"]);
    const [head, row] = stdout.split("\n");
    expect(code).toBe(0);
    expect(head?.split(/ {3,}/)).toEqual(["REPOSITORY", "TAGS", "DIGEST", "SIZE", "CREATED"]);
    expect(row).toMatch(/^lab {3,}[0-9a-f]{12}, latest {3,}[0-9a-f]{12} {3,}\d+\.\d KiB {3,}(just now|\d+ \w+ ago)$/);
  });

  test("--json prints JSON", async () => {
    const { stdout } = await store.cliHere(["models", "--json"]);
    expect(JSON.parse(stdout)).toEqual([
      {
        repository: "lab",
        tags: [expect.stringMatching(/^[0-9a-f]{12}$/), "latest"],
        digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        size: expect.any(Number),
        withoutWeights: false,
        created: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      },
    ]);
  });

  test("of an empty store says how to build one", async () => {
    await using own = await storeWith();
    const { code, stdout } = await own.cliHere(["models"]);
    expect(code).toBe(0);
    expect(stdout).toContain("sconce build DIR");
  });
});
