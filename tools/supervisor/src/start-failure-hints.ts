import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { readStartTime } from '../bootstrap/process-identity.mjs';
import { diskFullHint, isDiskFull } from './data-dir.ts';

const MAX_LINES = 6;
const MAX_LINE_CHARACTERS = 300;
const NOISE_LINE = /^\s*(at |Node\.js v|$)/;

/** One error line of mongod's JSON log: severity, message, attributes. */
const mongodErrorSchema = z.object({
  s: z.enum(['E', 'F']),
  msg: z.string(),
  attr: z.record(z.string(), z.unknown()).optional(),
});

type DataServer = 'mongodb' | 'redis';

/** Advice for a data server whose log matches a pattern. */
interface FailureHint {
  pattern: RegExp;
  hint(folder: string): string;
}

const COMMON_HINTS: readonly FailureHint[] = [
  {
    pattern: /No space left on device|Disk quota exceeded|ENOSPC/,
    hint: diskFullHint,
  },
  {
    pattern: /Permission denied|Operation not permitted|Read-only file system/,
    hint: (folder) => `Fix the owner and the permissions of ${folder}.`,
  },
  {
    pattern: /Address already in use/,
    hint: () =>
      'Another program has just taken its port. Start again, or use other ports with CARILLON_PORT_BASE.',
  },
];

const HINTS: Record<DataServer, readonly FailureHint[]> = {
  mongodb: [
    {
      pattern: /DBPathInUse|Another mongod instance is already running/,
      hint: (folder) =>
        `Another MongoDB server (${describeLockHolder(folder)}) is using ${folder}. Stop it and start again.`,
    },
    ...COMMON_HINTS,
    {
      pattern: /Too many open files/,
      hint: () => 'Raise the limit of open files: ulimit -n 64000.',
    },
    {
      pattern:
        /UPGRADE PROBLEM|Wrong mongod version|invalid featureCompatibilityVersion|requires WiredTiger version|unsupported WiredTiger file version/i,
      hint: (folder) =>
        `The data in ${folder} belong to another version of MongoDB. Set CARILLON_MONGOD to a mongod of that version.`,
    },
    {
      pattern:
        /missing featureCompatibilityVersion|WT_PANIC|WT_TRY_SALVAGE|checksum error|corrupt|fatal turtle file read error|WT_ERROR: non-specific|may need to run repair|--repair|file is not a WiredTiger|No such file or directory.*WiredTiger/i,
      hint: (folder) =>
        `If its data in ${folder} can't be repaired, move that folder away to start with an empty database, or use another server with MONGODB_URI.`,
    },
  ],
  redis: [
    ...COMMON_HINTS,
    {
      pattern: /Can't handle RDB format version/,
      hint: (folder) =>
        `The data in ${folder} belong to a newer Redis. Move that folder away: nothing is lost, because MongoDB stores everything.`,
    },
    {
      pattern:
        /Bad file format|Unexpected end of file|Internal error in RDB|Short read|wrong signature|CRC|corrupt|Invalid AOF manifest/i,
      hint: (folder) =>
        `Its files in ${folder} are damaged. Move that folder away: nothing is lost, because MongoDB stores everything.`,
    },
  ],
};

const URL_VARIABLES: Record<DataServer, string> = { mongodb: 'MONGODB_URI', redis: 'REDIS_URL' };

/** Finds advice for a data server that does not start, from its log. Moving its data away is advised only where it helps. */
export function findHint(service: DataServer, folder: string, logPath: string): string {
  // On a full disk the server can't write its log either.
  if (isDiskFull(folder)) return diskFullHint(folder);
  const text = readErrorLines(logPath).join('\n');
  const found = HINTS[service].find(({ pattern }) => pattern.test(text));
  if (found !== undefined) return found.hint(folder);
  return `Fix the cause and start again, or use another server with ${URL_VARIABLES[service]}.`;
}

/** Describes the mongod that holds a folder's lock: mongod writes its pid into mongod.lock. */
function describeLockHolder(folder: string): string {
  const path = join(folder, 'mongod.lock');
  try {
    const pid = Number(readFileSync(path, 'utf8').trim());
    if (pid > 0 && readStartTime(pid) !== undefined) return `process ${pid}`;
  } catch {
    // Another user's folder, for instance.
  }
  return `its process id is in ${path}`;
}

/** Formats the last lines of a log, indented, for an error message. */
export function readLogTail(path: string): string {
  return readErrorLines(path)
    .slice(-MAX_LINES)
    .map((line) => `  ${line.slice(0, MAX_LINE_CHARACTERS)}`)
    .join('\n');
}

/** Reads the error lines of a log; without any, all its lines but stack traces and empty lines. */
function readErrorLines(path: string): string[] {
  const lines = readLines(path);
  const errors = lines.flatMap(parseMongodError);
  return errors.length > 0 ? errors : lines.filter((line) => !NOISE_LINE.test(line));
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n');
  } catch {
    return [];
  }
}

function parseMongodError(line: string): string[] {
  if (!line.startsWith('{"t":')) return [];
  try {
    const entry = mongodErrorSchema.safeParse(JSON.parse(line)).data;
    if (entry === undefined) return [];
    return [`${entry.msg.trim()} ${JSON.stringify(entry.attr ?? {})}`.replaceAll(/\s+/g, ' ')];
  } catch {
    return [];
  }
}
