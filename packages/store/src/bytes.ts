import type { Binary } from 'mongodb';

/** Returns the bytes of a stored binary; none if it is absent. */
export function toBytes(binary: Binary | undefined): Uint8Array {
  if (binary === undefined) return new Uint8Array(0);
  return binary.buffer.subarray(0, binary.position);
}

/** Packs numbers as 4 bytes each, little endian on every machine. */
export function packUint32s(numbers: Uint32Array): Buffer {
  const packed = Buffer.alloc(numbers.length * 4);
  const view = viewOf(packed);
  for (let index = 0; index < numbers.length; index += 1)
    view.setUint32(index * 4, numbers[index] ?? 0, true);
  return packed;
}

/** Reads the first `count` numbers of {@link packUint32s}; 0 for those that are not there. */
export function readUint32s(binary: Binary | undefined, count: number): Uint32Array {
  const numbers = new Uint32Array(count);
  const view = viewOf(toBytes(binary));
  const stored = Math.min(count, Math.floor(view.byteLength / 4));
  for (let index = 0; index < stored; index += 1) numbers[index] = view.getUint32(index * 4, true);
  return numbers;
}

/** Reads one number of {@link packUint32s}; 0 if there is none. */
export function readUint32At(binary: Binary | undefined, index: number): number {
  const view = viewOf(toBytes(binary));
  return view.byteLength >= index * 4 + 4 ? view.getUint32(index * 4, true) : 0;
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
