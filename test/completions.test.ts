/** Shell completions, run by the shells themselves. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { chmod } from "node:fs/promises";
import { cli } from "./helpers/cli.ts";
import { type TempDir, tempDir } from "./helpers/temp-dir.ts";

const shells = ["bash", "zsh", "fish"] as const;
let dir: TempDir;

beforeAll(async () => {
  dir = await tempDir();
  for (const shell of shells) await Bun.write(dir.join(shell), (await cli(["completions", shell])).stdout);
  // The completions run `sconce models`. This script replaces `sconce`, and prints a table of two models.
  await Bun.write(
    dir.join("sconce"),
    "#!/bin/sh\nprintf 'REPOSITORY   TAGS\\ndigits   latest\\nteam/upscale   v1\\n'\n",
  );
  await chmod(dir.join("sconce"), 0o755);
});

afterAll(() => dir[Symbol.asyncDispose]());

/** The completions that bash offers for the last of these words. */
async function offered(...words: string[]): Promise<string[]> {
  const script = `. "$0"; COMP_WORDS=(sconce "$@"); COMP_CWORD=$#; _sconce; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const env = { ...process.env, PATH: `${dir.path}:${process.env.PATH}` };
  const text = await Bun.$`bash -uc ${script} ${dir.join("bash")} ${words}`.env(env).nothrow().text();
  return text.split("\n").filter(Boolean);
}

test("bash completes commands, options and the values of options with a list of values", async () => {
  expect(await offered("pu")).toEqual(["push", "pull"]);
  expect(await offered("serve", "--log-")).toEqual(["--log-level", "--log-format"]);
  expect(await offered("serve", "digits", "--no-")).toEqual([
    "--no-verify",
    "--no-page",
    "--no-docs",
    "--no-pack-layers",
    "--no-golden",
    "--no-isolate",
  ]);
  expect(await offered("serve", "--store-sync", "")).toEqual(["normal", "full"]);
  expect(await offered("serve", "--log-level", "=", "w")).toEqual(["warning"]);
  expect(await offered("compile", "--libtorch", "=")).toEqual(["embedded", "external"]);
});

test("bash completes models of the store where a model is expected, and files elsewhere", async () => {
  expect(await offered("serve", "")).toEqual(["digits", "team/upscale"]);
  expect(await offered("rm", "digits", "te")).toEqual(["team/upscale"]);
  expect(await offered("build", "")).toEqual([]);
  expect(await offered("build", "--weights", "")).toEqual([]);
  expect(await offered("predict", "digits", "image", "=")).toEqual([]);
  expect(await offered("predict", "digits", "image", "=", "dig")).toEqual([]);
});

test("bash completes fixed words for the first argument only", async () => {
  expect(await offered("completions", "")).toEqual([...shells]);
  expect(await offered("completions", "z")).toEqual(["zsh"]);
  expect(await offered("completions", "zsh", "")).toEqual([]);
});

test.each(shells.filter((shell) => Bun.which(shell)))(
  "%s accepts its completion script without a syntax error",
  async (shell) => {
    const { exitCode, stderr } = await Bun.$`${shell} -n ${dir.join(shell)}`.nothrow().quiet();
    expect({ exitCode, errors: stderr.toString() }).toEqual({ exitCode: 0, errors: "" });
  },
);

test("an unknown shell is refused", async () => {
  expect(await cli(["completions", "tcsh"])).toMatchObject({
    code: 2,
    stderr: "sconce: SHELL must be one of bash, zsh, fish, not tcsh\n",
  });
});
