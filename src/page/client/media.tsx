/** A file as what it is: a picture, a sound, a film, or a name to keep it by. */
import { useState } from "preact/hooks";
import { Sound } from "./sound.tsx";
import { mediaTypeOf, sizeOf, sizeText } from "./value.ts";

interface MediaProps {
  readonly url: string;
  readonly label: string;
  readonly isPicture: boolean;
}

export function Media({ url, label, isPicture }: MediaProps) {
  const type = mediaTypeOf(url) ?? "";
  if (isPicture) return <Picture url={url} label={label} />;
  if (type.startsWith("audio/")) return <Sound url={url} label={label} />;
  // biome-ignore lint/a11y/useMediaCaption: there are none for what a model made
  if (type.startsWith("video/")) return <video class="picture" src={url} controls aria-label={label} />;
  if (type === "") return null;
  return (
    <p class="file-name">
      {type || "file"}, {sizeText(sizeOf(url))}
    </p>
  );
}

/** Small ones are enlarged with their pixels to be seen. */
const SMALL_PIXELS = 160;

export function Picture({ url, label }: Omit<MediaProps, "isPicture">) {
  const [isSmall, setSmall] = useState(false);
  return (
    <img
      class={`picture ${isSmall ? "small-picture" : ""}`}
      src={url}
      alt={label}
      onLoad={({ currentTarget: { naturalWidth, naturalHeight } }) =>
        setSmall(Math.max(naturalWidth, naturalHeight) < SMALL_PIXELS)
      }
    />
  );
}

export function Download({ url, name }: { readonly url: string; readonly name: string }) {
  return (
    <a class="download" href={url} download={`${name}.${extensionOf(mediaTypeOf(url) ?? "")}`}>
      Save
    </a>
  );
}

export function extensionOf(mediaType: string): string {
  const [, kind = "bin"] = mediaType.split("/");
  const plain = kind.replace(/^x-|\+.*$/g, "");
  return { jpeg: "jpg", plain: "txt", "octet-stream": "bin", mpeg: "mp3" }[plain] ?? plain;
}
