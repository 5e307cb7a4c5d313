import { type KeyObject, verify } from 'node:crypto';

const HASHES: Record<string, string> = { ES256: 'sha256', RS256: 'sha256' };

/** A parsed token with an unverified signature (RFC 7519). */
export interface Jwt {
  header: Record<string, unknown>;
  claims: Record<string, unknown>;
  /** Verifies the signature with a key and algorithm. */
  isSignedBy(key: KeyObject, algorithm: 'ES256' | 'RS256'): boolean;
}

/** Parses a token; undefined when it is malformed. */
export function parseJwt(text: string): Jwt | undefined {
  const [header, claims, signature, ...rest] = text.split('.');
  if (header === undefined || claims === undefined || signature === undefined) return undefined;
  if (rest.length > 0) return undefined;
  const parts = [header, claims].map(parsePart);
  if (parts[0] === undefined || parts[1] === undefined) return undefined;
  const [parsedHeader, parsedClaims] = [parts[0], parts[1]];
  return {
    header: parsedHeader,
    claims: parsedClaims,
    isSignedBy: (key, algorithm) =>
      parsedHeader.alg === algorithm &&
      verify(
        HASHES[algorithm],
        Buffer.from(`${header}.${claims}`),
        { key, dsaEncoding: 'ieee-p1363' },
        Buffer.from(signature, 'base64url'),
      ),
  };
}

function parsePart(part: string): Record<string, unknown> | undefined {
  return parseJsonObject(Buffer.from(part, 'base64url').toString());
}

/** Parses a JSON object; undefined when the text is anything else. */
export function parseJsonObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Checks whether a value is a JSON object. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
