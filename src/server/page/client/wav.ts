/** Sounds as WAV: of what browsers record, the one kind that every model reads. */

/** 16-bit, one channel, at the rate that it was recorded with. */
export async function wavOf(recorded: Blob): Promise<Blob> {
  const context = new AudioContext();
  try {
    const sound = await context.decodeAudioData(await recorded.arrayBuffer()).catch(() => {
      throw new Error("Nothing was heard yet: close this and record again.");
    });
    return new Blob([wavBytes(sound.getChannelData(0), sound.sampleRate)], { type: "audio/wav" });
  } finally {
    await context.close();
  }
}

function wavBytes(samples: Float32Array, rate: number): ArrayBuffer {
  const headerBytes = 44;
  const view = new DataView(new ArrayBuffer(headerBytes + samples.length * 2));
  const write = (at: number, text: string) => {
    for (let i = 0; i < text.length; i++) view.setUint8(at + i, text.charCodeAt(i));
  };
  write(0, "RIFF");
  view.setUint32(4, view.byteLength - 8, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  write(36, "data");
  view.setUint32(40, samples.length * 2, true);
  for (const [i, sample] of samples.entries()) {
    view.setInt16(headerBytes + i * 2, Math.max(-1, Math.min(1, sample)) * 32767, true);
  }
  return view.buffer;
}
