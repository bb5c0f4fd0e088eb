/** Shows a file as a picture, a sound or a video, with its name, media type, dimensions, size, and a link to save it. */
import { useState } from "preact/hooks";
import { mediaTypeOf, sizeOf, sizeText } from "./value.ts";

interface MediaProps {
  readonly url: string;
  readonly label: string;
  readonly isPicture: boolean;
  /** File name, if the user chose the file. */
  readonly name?: string | undefined;
}

export function Media({ url, label, isPicture, name }: MediaProps) {
  const type = mediaTypeOf(url) ?? "";
  const [shown, setShown] = useState<{ readonly url: string; readonly dimensions: string }>();
  const dimensions = shown?.url === url ? shown.dimensions : undefined;
  return (
    <>
      {isPicture ? (
        <Picture key={url} url={url} label={label} onShown={(text) => setShown({ url, dimensions: text })} />
      ) : type.startsWith("audio/") ? (
        // biome-ignore lint/a11y/useMediaCaption: there are none for what a model made
        <audio src={url} controls aria-label={label} />
      ) : (
        // biome-ignore lint/a11y/useMediaCaption: there are none for what a model made
        type.startsWith("video/") && <video class="picture" src={url} controls aria-label={label} />
      )}
      <FileFacts url={url} name={name} dimensions={dimensions} />
    </>
  );
}

/** A line of facts about a file: `coffee.jpg · image/jpeg · 512 × 512 · 34.1 kB`. */
export function FileFacts({
  url,
  name,
  dimensions,
}: Pick<MediaProps, "url" | "name"> & { readonly dimensions?: string | undefined }) {
  const type = mediaTypeOf(url);
  const facts = [name, type, dimensions, type === undefined ? undefined : sizeText(sizeOf(url))].filter(Boolean);
  return facts.length === 0 ? null : <p class="file-name">{facts.join(" · ")}</p>;
}

/** Pictures with fewer pixels on their longer side are enlarged without smoothing. */
const SMALL_PIXELS = 160;

interface PictureProps extends Omit<MediaProps, "isPicture" | "name"> {
  readonly onShown?: (dimensions: string) => void;
}

export function Picture({ url, label, onShown }: PictureProps) {
  const [isSmall, setSmall] = useState(false);
  const [isBroken, setBroken] = useState(false);
  if (isBroken) return <p class="no-picture">This file cannot be shown as an image.</p>;
  return (
    <img
      class={`picture ${isSmall ? "small-picture" : ""}`}
      src={url}
      alt={label}
      onLoad={({ currentTarget: { naturalWidth, naturalHeight } }) => {
        setSmall(Math.max(naturalWidth, naturalHeight) < SMALL_PIXELS);
        onShown?.(`${naturalWidth} × ${naturalHeight}`);
      }}
      onError={() => setBroken(true)}
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
