/** How tests download Debian packages, shown with a local package source of two packages. */
import { beforeAll, describe, expect, test } from "bun:test";
import { mkdir, readdir, stat } from "node:fs/promises";
import { debianTool, fetchDebianTools } from "./helpers/debian-tools.ts";
import { fixture } from "./helpers/fixture.ts";
import { tempDir } from "./helpers/temp-dir.ts";

const lacking = ["apt-get", "dpkg", "dpkg-deb"].filter((name) => Bun.which(name) === null);

describe.skipIf(lacking.length > 0)(
  `Debian's tools (with apt-get and dpkg${lacking.length > 0 ? ": not here" : ""})`,
  () => {
    const dir = fixture(tempDir);
    beforeAll(async () => {
      await mkdir(dir.join("source"));
      const packages = [
        await pack(
          "sconce-greeter",
          { depends: "libsconcegreeting" },
          "usr/bin/sconce-greeter",
          "#!/bin/sh\ncat $LD_LIBRARY_PATH/libgreeting.so\n",
        ),
        await pack("libsconcegreeting", {}, "usr/lib/x86_64-linux-gnu/libgreeting.so", "hello\n"),
      ];
      await Bun.write(dir.join("source/Packages"), packages.join("\n"));
      await Bun.write(dir.join("sources.list"), `deb [trusted=yes] copy:${dir.join("source")} ./\n`);
      await Bun.write(dir.join("status"), "");
    });

    /** Creates a package with one file. @returns its entry for the index of the package source */
    async function pack(name: string, fields: { depends?: string }, path: string, content: string): Promise<string> {
      const control = [
        `Package: ${name}`,
        "Version: 1.0-1",
        "Architecture: all",
        "Maintainer: nobody <nobody@example.com>",
        "Description: for a test",
        ...(fields.depends === undefined ? [] : [`Depends: ${fields.depends}`]),
      ].join("\n");
      await Bun.write(dir.join(name, path), content);
      await Bun.$`chmod 755 ${dir.join(name, path)}`;
      await Bun.write(dir.join(name, "DEBIAN/control"), `${control}\n`);
      const file = dir.join("source", `${name}.deb`);
      await Bun.$`dpkg-deb --root-owner-group --build ${dir.join(name)} ${file}`.quiet();
      const hash = new Bun.CryptoHasher("sha256").update(await Bun.file(file).bytes()).digest("hex");
      return `${control}\nFilename: ./${name}.deb\nSize: ${(await stat(file)).size}\nSHA256: ${hash}\n`;
    }

    const options = (home: string) => ({
      home: dir.join(home),
      ignoreSystem: true,
      apt: [
        ...["-o", `Dir::Etc::sourcelist=${dir.join("sources.list")}`],
        ...["-o", "Dir::Etc::sourceparts=-"],
        // The list of installed packages, which is empty here.
        ...["-o", `Dir::State::status=${dir.join("status")}`],
      ],
    });

    test("are unpacked once into one folder, with the libraries that they need", async () => {
      const at = options("home");
      // A killed download leaves an incomplete file.
      await Bun.write(dir.join("home/unfinished/unpacked/sconce-greeter/usr/bin/sconce-greeter"), "half");
      expect(debianTool("sconce-greeter", at)).toBeUndefined();
      expect(await fetchDebianTools(["sconce-greeter"], at)).toBeUndefined();
      const tool = debianTool("sconce-greeter", at);
      expect(tool?.env).toEqual({ LD_LIBRARY_PATH: dir.join("home/sconce-greeter/usr/lib/x86_64-linux-gnu") });
      expect(await Bun.$`${tool?.command ?? ""}`.env({ ...process.env, ...tool?.env }).text()).toBe("hello\n");
      expect(await readdir(dir.join("home"))).toEqual(["sconce-greeter"]);
      const { mtimeMs } = await stat(dir.join("home/sconce-greeter"));
      expect(await fetchDebianTools(["sconce-greeter"], at)).toBeUndefined();
      expect((await stat(dir.join("home/sconce-greeter"))).mtimeMs).toBe(mtimeMs);
    });

    test("find the files beside them, also if Debian's package is installed", async () => {
      const installed =
        "Status: install ok installed\nMaintainer: nobody <nobody@example.com>\nDescription: for a test";
      await Bun.write(
        dir.join("installed"),
        `Package: libsconcegreeting\nVersion: 1.0-1\nArchitecture: all\n${installed}\n`,
      );
      const { apt, ...at } = options("beside");
      const here = { ...at, apt: [...apt, "-o", `Dir::State::status=${dir.join("installed")}`] };
      const own = { "sconce-greeter": ["libsconcegreeting"] };
      expect(await fetchDebianTools(["sconce-greeter"], { ...here, own })).toBeUndefined();
      expect((await readdir(dir.join("beside/sconce-greeter/usr"))).sort()).toEqual(["bin", "lib"]);
    });

    test("that do not exist are reported, and leave nothing behind", async () => {
      expect(await fetchDebianTools(["sconce-absent"], options("absent"))).toContain(
        "Unable to locate package sconce-absent",
      );
      expect(await readdir(dir.join("absent"))).toEqual([]);
    });

    test("that are installed are used", () => {
      expect(debianTool("sh")).toEqual({ command: Bun.which("sh") ?? "", env: {} });
    });
  },
);
