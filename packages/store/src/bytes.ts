import type { Binary } from 'mongodb';

/** Returns the bytes of a stored binary; none if it is absent. */
export function toBytes(binary: Binary | undefined): Uint8Array {
  if (binary === undefined) return new Uint8Array(0);
  return binary.buffer.subarray(0, binary.position);
}

/** Packs numbers as 4 bytes each, little endian on every machine. */
export function packUint32s(numbers: Uint32Array): Buffer {
  const packed = Buffer.alloc(numbers.length * 4);
  for (const [index, value] of numbers.entries()) packed.writeUInt32LE(value, index * 4);
  return packed;
}

/** Reads the first `count` numbers of {@link packUint32s}; 0 for those that are not there. */
export function readUint32s(binary: Binary | undefined, count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, index) => readUint32At(binary, index));
}

/** Reads one number of {@link packUint32s}; 0 if there is none. */
export function readUint32At(binary: Binary | undefined, index: number): number {
  const bytes = toBytes(binary);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return view.byteLength >= index * 4 + 4 ? view.getUint32(index * 4, true) : 0;
}
