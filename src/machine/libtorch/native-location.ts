/** Where the native addon is. A compiled executable sets the place before the addon is loaded. */
import type { LibraryPack } from "./pack.ts";

/** Path of the addon, and advice for the error message if the addon cannot be loaded. */
export interface NativeLocation {
  readonly path: string;
  readonly fix: string;
  /**
   * Only in an executable that can compile other executables: version of torch, and archive of the native libraries.
   */
  readonly unpacked?: { readonly torch: string; readonly pack: LibraryPack };
}

let location: NativeLocation | undefined;

/** Overrides the addon's location. Compiled executables call this before the addon is loaded. */
export function setNativeLocation(elsewhere: NativeLocation): void {
  location = elsewhere;
}

/** The location that was set; undefined outside executables. */
export function nativeLocation(): NativeLocation | undefined {
  return location;
}
