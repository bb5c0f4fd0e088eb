/** Opens the folder into which `sconce image` writes container images. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "zod";
import { messageOf, SconceError } from "../../base/errors.ts";
import { parsedJson } from "../../base/json.ts";
import { IndexFile } from "../store/index-file.ts";
import { Layout } from "../store/layout.ts";
import { mediaTypes } from "../store/manifest.ts";

const layoutSchema = z.looseObject({ imageLayoutVersion: z.literal("1.0.0") });

/**
 * Opens the layout of images in a folder, or makes a new or empty folder ready for one.
 * @throws SconceError `usage` when the folder contains anything else, such as a model store
 */
export function openImages(folder: string): Layout {
  const path = resolve(folder);
  const layout = new Layout(path, `the image layout ${path}`);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory() === false) throw new SconceError("usage", `${folder} is not a folder; ${expected}`);
  // Ignores hidden files: another process may be creating the layout at this moment.
  if (found === undefined || readdirSync(path).every((name) => name.startsWith("."))) {
    try {
      mkdirSync(path, { recursive: true });
    } catch (cause) {
      throw new SconceError("usage", `${folder} cannot be made (${messageOf(cause)}); name another folder`, { cause });
    }
    return layout;
  }
  const mark = join(path, "oci-layout");
  if (!existsSync(mark) || !layoutSchema.safeParse(parsedJson(readFileSync(mark, "utf8"))).success) {
    throw new SconceError("usage", `${folder} has files and is not an OCI image layout; ${expected}`);
  }
  if (IndexFile.read(path).descriptors.some(({ artifactType }) => artifactType === mediaTypes.model)) {
    const message = `${folder} is a store of models, whose names an image would take; give another folder`;
    throw new SconceError("usage", message);
  }
  return layout;
}

const expected = "expected a new or empty folder, or a layout to add the image to";
