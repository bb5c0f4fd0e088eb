/** Folders where sconce keeps models, predictions and locks. */
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";

/**
 * Environment variable with the folder of models that an operator names on the command line, in place of the store.
 * Child processes inherit it.
 */
const modelsVariable = "SCONCE_MODELS_FOLDER";

/**
 * Makes this process and its child processes read models from a folder. Predictions and locks stay in
 * `storeLocation()`.
 */
export function readModelsFrom(folder: string): void {
  process.env[modelsVariable] = folder;
}

/** Folder of the model store: the folder of `readModelsFrom`, otherwise `storeLocation()`. */
export function modelsLocation(): string {
  return process.env[modelsVariable] || storeLocation();
}

/**
 * Folder for models, predictions and locks: `$SCONCE_HOME`, otherwise the user's data directory. The data directory on
 * macOS is `~/Library/Application Support/sconce`, elsewhere `$XDG_DATA_HOME/sconce` or `~/.local/share/sconce`.
 */
export function storeLocation(
  env: Readonly<Record<string, string | undefined>> = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  if (env.SCONCE_HOME) return resolve(env.SCONCE_HOME);
  const home = env.HOME || homedir();
  // Ignores a relative path, as the XDG specification requires.
  const xdg = env.XDG_DATA_HOME && isAbsolute(env.XDG_DATA_HOME) ? env.XDG_DATA_HOME : undefined;
  if (xdg) return join(xdg, "sconce");
  return platform === "darwin"
    ? join(home, "Library", "Application Support", "sconce")
    : join(home, ".local", "share", "sconce");
}
