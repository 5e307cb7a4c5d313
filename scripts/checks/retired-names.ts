import { basename } from 'node:path';
import type { SourceFile } from './source-file.ts';

/**
 * Words that no file name and no exported name may contain, each with the term that replaces it. An entry of several
 * words stands for these words in sequence.
 */
export const RETIRED_NAMES: Record<string, string> = {
  addressee: 'recipient',
  anchors: 'page cursors',
  announce: 'register, report',
  'carry out': 'apply',
  conduct: 'fault configuration',
  crew: 'process group',
  crowd: 'capacity',
  crowded: 'at capacity',
  debt: 'pending work',
  departures: 'deleted devices',
  detour: 'host override',
  doubled: 'duplicate',
  doubles: 'duplicates',
  'each its own': 'bulk set',
  endings: 'completions',
  enrol: 'register',
  entrance: 'listener',
  fate: 'recipient status',
  fates: 'recipient status',
  goodbye: 'drain',
  greeting: 'connect request',
  'hand over': 'dispatch',
  handover: 'bootstrap configuration',
  herd: 'devices',
  hurried: 'retry requested',
  hurry: 'retry now, force stop',
  judge: 'validate',
  'last words': 'log tail',
  leash: 'watchdog',
  'left over': 'orphan',
  meet: 'handle request',
  newcomer: 'pending connection',
  obstacle: 'conflict',
  owe: 'pending',
  owed: 'pending',
  owes: 'pending',
  pace: 'throttle',
  patience: 'timeout',
  poster: 'HTTP client',
  'put off': 'defer',
  'say goodbye': 'drain',
  'signs of life': 'last seen',
  stranger: 'pending connection',
  strangers: 'pending connections',
  surprise: 'unexpected error',
  surroundings: 'context',
  tally: 'count',
  teller: 'reporter',
  told: 'reported',
  untold: 'pending increments',
  verdict: 'response',
  'way out': 'hint',
  whereabouts: 'presence',
  'who is online': 'presence reader',
  withdraw: 'cancel',
};

/** Finds the retired words in the name of a file and in the names that it exports. */
export function findRetiredNames({ path, exports }: SourceFile): string[] {
  return [basename(path), ...exports].flatMap((name) =>
    Object.entries(RETIRED_NAMES)
      .filter(([retired]) => containsWords(name, retired))
      .map(([retired, term]) => `${path}: ${name} says "${retired}", use "${term}"`),
  );
}

/** Compares whole words of a kebab-case, camelCase or UPPER_CASE name. */
function containsWords(name: string, words: string): boolean {
  const nameWords = name.replaceAll(/([a-z\d])([A-Z])/g, '$1 $2').replaceAll(/[^A-Za-z\d]+/g, ' ');
  return ` ${nameWords.toLowerCase()} `.includes(` ${words} `);
}
