/** Files with options for `serve`: sconce.toml and --config; and the command `config check`. */
import { describe, expect, test } from "bun:test";
import { symlink } from "node:fs/promises";
import { flagName } from "../src/cli/command-line/command.ts";
import { serve } from "../src/cli/commands/serve.ts";
import { cli, clientOf } from "./helpers/cli.ts";
import { Client } from "./helpers/client.ts";
import { cliHere } from "./helpers/command-here.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { storeWith } from "./helpers/server.ts";

const store = fixture(() => storeWith("lab", "parts"));

async function folderWith(toml: string, name = "sconce.toml") {
  const dir = await tempDir();
  await Bun.write(dir.join(name), toml);
  return dir;
}

/**
 * Exit code and error of `sconce serve` in a folder with this sconce.toml. The arguments must be wrong, so that no
 * server starts.
 */
async function refusal(toml: string, args: readonly string[] = [], env: Readonly<Record<string, string>> = {}) {
  await using dir = await folderWith(toml);
  const { code, stderr } = await cliHere(["serve", ...args], { cwd: dir.path, env });
  return { code, stderr: stderr.trim() };
}

describe("sconce.toml in the working folder", () => {
  test("gives options and the model to serve, with paths relative to the file", async () => {
    await using dir = await folderWith(`
models = ["lab"]
host = "127.0.0.1"
port = 0
store = "kept.sqlite"
max-body-bytes = "1k"
log-format = "json"
`);
    await using server = store.startCli(["serve"], { cwd: dir.path });
    const line = await server.line("Listening on");
    const client = new Client(new URL(/http:[^"]+/.exec(line)?.[0] ?? ""));
    expect(await client.json("/")).toMatchObject({ name: "lab" });
    expect((await client.post([{ x: 1, note: "a".repeat(2000) }])).status).toBe(413);
    expect(await Bun.file(dir.join("kept.sqlite")).exists()).toBe(true);
    expect(JSON.parse(line)).toMatchObject({ level: "info" });
    expect(server.lines.some((each) => each.includes("Options are also read from sconce.toml"))).toBe(true);
  });

  test("names several models, or a file with the list of models", async () => {
    const models = async (toml: string, env: Readonly<Record<string, string>> = {}) => {
      await using dir = await folderWith(`host = "127.0.0.1"\nport = 0\n${toml}`);
      await Bun.write(dir.join("list.toml"), '[[model]]\nmodel = "lab"\n[[model]]\nmodel = "parts"\n');
      await using server = store.startCli(["serve"], {
        cwd: dir.path,
        // With SCONCE_KEEP_ALIVE, a model loads only at its first prediction, and this test makes none.
        env: { SCONCE_KEEP_ALIVE: "600", ...env },
      });
      const client = await clientOf(server);
      const { models } = (await client.json("/models")) as { models: { name: string }[] };
      return models.map(({ name }) => name);
    };
    expect(await models('models = ["lab", "parts"]')).toEqual(["lab", "parts"]);
    expect(await models('models = "list.toml"')).toEqual(["lab", "parts"]);
    expect(await models("", { SCONCE_MODELS: "list.toml" })).toEqual(["lab", "parts"]);
  });

  test("has less precedence than a flag and a variable, and is replaced by --config", async () => {
    await using dir = await folderWith("port = 99999");
    expect(await cli(["serve"], { cwd: dir.path })).toEqual({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^sconce: sconce\.toml:1: port .*, not "99999"\n$/),
    });
    expect((await refusal("port = 99999", [], { SCONCE_PORT: "x" })).stderr).toStartWith("sconce: SCONCE_PORT ");
    expect((await refusal("port = 99999", ["--port", "y"], { SCONCE_PORT: "x" })).stderr).toContain("--port must be");
    await using other = await folderWith("timeout = -1", "other.toml");
    const { stderr } = await refusal("port = 99999", ["--config", other.join("other.toml")]);
    expect(stderr).toContain("other.toml:1: timeout must be");
  });

  test("is read by serve only", async () => {
    await using dir = await folderWith("port = 99999");
    expect((await store.cliHere(["models"], { cwd: dir.path })).code).toBe(0);
  });
});

describe("a fault of a file is refused with its line:", () => {
  test.each([
    ["\nbatch_size = 4", "sconce.toml:2: unknown option batch_size; did you mean batch-size?"],
    ["[bach-size]\nx = 1", "sconce.toml:1: unknown option bach-size; did you mean batch-size?"],
    ["model = 'lab'", "sconce.toml:1: unknown option model; did you mean models?"],
    ["port = '80'", "sconce.toml:1: port must be a number without quotes, not a text"],
    ["# a\n\naccess-log = 'yes'", "sconce.toml:3: access-log must be true or false, not a text"],
    ["host = 1", "sconce.toml:1: host must be a text in quotes, not a number"],
    ["host = ['a']", "sconce.toml:1: host must be a text in quotes, not an array"],
    ["max-memory = true", 'sconce.toml:1: max-memory must be a number, or a text such as "64m", not a boolean'],
    ["cors-origin = [1]", "sconce.toml:1: cors-origin must be an array of texts in quotes, not an array"],
    ["models = 5", "sconce.toml:1: models must be a text in quotes, not a number"],
    ["models = ['lab', 5]", "sconce.toml:1: models must be an array of texts in quotes"],
    ["port = 1\nhost = = 2\n", "sconce.toml: TOML Parse error: Expected a value but found '='"],
    ["port = 1\nport = 2\n\n", "sconce.toml: TOML Parse error: Cannot redefine key 'port'"],
    ["webhook-secret = ['secret-text']", "sconce.toml:1: webhook-secret must"],
  ])("%j", async (toml, message) => {
    const { code, stderr } = await refusal(toml);
    expect({ code, isStated: stderr.startsWith(`sconce: ${message}`) ? message : stderr }).toEqual({
      code: 2,
      isStated: message,
    });
    expect(stderr).not.toContain("secret-text");
  });

  test("a missing --config file", async () => {
    const { code, stderr } = await cliHere(["serve", "--config", "/nonexistent/a.toml"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("the options file cannot be read")]);
  });
});

test("every option of serve has the type that its help states", async () => {
  const values: Record<string, unknown> = {};
  for (const [key, { default: initial, fileForm, isList }] of Object.entries(serve.options)) {
    if (key === "config") continue;
    values[flagName(key)] =
      typeof initial === "boolean" ? initial : fileForm === "number" || fileForm === "bytes" ? 1 : isList ? [] : "text";
  }
  const toml = Object.entries(values).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  await using dir = await folderWith(toml.join("\n"));
  const { stdout } = await cliHere(["config", "check"], { cwd: dir.path });
  expect(stdout).not.toMatch(/unknown option|must be a number without|true or false|in quotes/);
});

describe("config check", () => {
  test("lists all faults", async () => {
    await using dir = await folderWith(`port = -1\nprot = 1\nhost = 5\n`);
    const { code, stdout } = await cliHere(["config", "check"], { cwd: dir.path });
    expect([code, stdout.trim().split("\n")]).toEqual([
      1,
      [
        "sconce.toml:2: unknown option prot; did you mean port?",
        "sconce.toml:3: host must be a text in quotes, not a number",
        expect.stringMatching(/^sconce.toml:1: port must be .*, not "-1"$/),
        "sconce.toml: 3 faults",
      ],
    ]);
  });

  test("accepts a valid file, also through a symbolic link, and requires a file", async () => {
    await using dir = await folderWith("port = 0\n", "a.toml");
    await symlink(dir.join("a.toml"), dir.join("b.toml"));
    expect(await cliHere(["config", "check", "b.toml"], { cwd: dir.path })).toMatchObject({
      code: 0,
      stdout: "b.toml has no faults\n",
    });
    const none = await cli(["config", "check"], { cwd: dir.path });
    expect([none.code, none.stderr]).toEqual([2, "sconce: there is no sconce.toml in this folder\n"]);
    expect((await cliHere(["config", "chek"], { cwd: dir.path })).stderr).toContain("expected check");
  });
});
