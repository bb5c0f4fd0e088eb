/** Takes a picture with the camera, or records a sound with the microphone. */
import { useEffect, useRef, useState } from "preact/hooks";
import { writeWav } from "../../../author/audio/wav.ts";
import { Clock } from "./clock.tsx";

interface RecorderProps {
  readonly kind: "camera" | "microphone";
  /** Called with undefined if the user closed the recorder without a recording. */
  readonly onDone: (file: Blob | undefined) => void;
}

export function Recorder({ kind, onDone }: RecorderProps) {
  const isCamera = kind === "camera";
  const video = useRef<HTMLVideoElement>(null);
  const recorder = useRef<MediaRecorder>(null);
  const [isReady, setReady] = useState(false);
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    const opening = navigator.mediaDevices.getUserMedia(isCamera ? { video: true } : { audio: true });
    let isOver = false;
    opening.then(
      (stream) => {
        if (isOver) return;
        // The camera is ready once it has a picture.
        if (video.current) video.current.srcObject = stream;
        if (isCamera) return;
        recorder.current = new MediaRecorder(stream);
        recorder.current.start();
        setReady(true);
      },
      (error: unknown) => setProblem(reasonOf(error, kind)),
    );
    return () => {
      isOver = true;
      opening.then(
        (stream) => {
          for (const track of stream.getTracks()) track.stop();
        },
        () => {},
      );
    };
  }, [kind, isCamera]);
  const finish = async () => {
    try {
      onDone(await (isCamera ? pictureOf(video.current) : soundOf(recorder.current)));
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const state = isReady ? (isCamera ? "" : "Recording …") : `Asking for the ${kind} …`;
  return (
    <div class="recorder stack close">
      {isCamera && problem === undefined && (
        <video
          ref={video}
          class={isReady ? "" : "unseen"}
          autoplay
          muted
          playsInline
          aria-label="What the camera sees"
          onLoadedData={() => setReady(true)}
        />
      )}
      <p>
        <span role="status">{problem ?? state}</span> {problem === undefined && isReady && !isCamera && <Clock />}
      </p>
      <div class="actions row">
        {problem === undefined && (
          <button type="button" class="small primary" disabled={!isReady} onClick={finish}>
            {isCamera ? "Take the picture" : "Stop"}
          </button>
        )}
        <button type="button" class="small" onClick={() => onDone(undefined)}>
          Close
        </button>
      </div>
    </div>
  );
}

function reasonOf(error: unknown, kind: RecorderProps["kind"]): string {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  if (name === "NotFoundError") return `This device has no ${kind}.`;
  return name === "NotAllowedError" ? `The browser does not let this page use the ${kind}.` : message;
}

function pictureOf(video: HTMLVideoElement | null): Promise<Blob | undefined> {
  const canvas = document.createElement("canvas");
  if (video === null) return Promise.resolve(undefined);
  [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
  canvas.getContext("2d")?.drawImage(video, 0, 0);
  return new Promise((resolve) => canvas.toBlob((blob) => resolve(blob ?? undefined), "image/jpeg", 0.92));
}

/** Ends a recording, and converts it to WAV, which every model can read: 16 bits, the first channel, at the AudioContext's sample rate. */
async function soundOf(recorder: MediaRecorder | null): Promise<Blob | undefined> {
  if (recorder?.state !== "recording") return undefined;
  const recorded = new Promise<Blob>((resolve) => {
    recorder.ondataavailable = ({ data }) => resolve(data);
  });
  // The whole recording comes in one event, because start() was called without an interval.
  recorder.stop();
  const context = new AudioContext();
  try {
    const sound = await context.decodeAudioData(await (await recorded).arrayBuffer()).catch(() => {
      throw new Error("The recording is empty: close this and record again.");
    });
    const wav = writeWav(sound.getChannelData(0), { rate: sound.sampleRate, channels: 1, encoding: "pcm16" });
    return new Blob([wav], { type: "audio/wav" });
  } finally {
    await context.close();
  }
}
