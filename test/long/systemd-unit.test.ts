/** The unit of deploy/systemd. */
import { expect, test } from "bun:test";
import { tempDir } from "../helpers/fixture.ts";

const analyze = Bun.which("systemd-analyze");

test.skipIf(analyze === null)(
  `systemd accepts the unit of deploy/systemd (with systemd-analyze${analyze === null ? ": not here" : ""})`,
  async () => {
    await using dir = await tempDir();
    const unit = await Bun.file(new URL("../../deploy/systemd/sconce.service", import.meta.url)).text();
    // systemd-analyze requires that the program of the unit exists.
    await Bun.write(dir.join("sconce.service"), unit.replace("/usr/local/bin/sconce", "/bin/true"));
    const { exitCode, stderr } = Bun.spawnSync([analyze ?? "", "verify", dir.join("sconce.service")]);
    expect({ exitCode, stderr: stderr.toString() }).toEqual({ exitCode: 0, stderr: "" });
  },
);
