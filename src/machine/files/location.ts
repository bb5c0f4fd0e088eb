/** Folders where sconce keeps models, predictions and locks. */
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";

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
