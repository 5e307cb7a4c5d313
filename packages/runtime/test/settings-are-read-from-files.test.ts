import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import { readEnv, webPushContactEnv } from '../src/env.ts';

const SECRET = 'correct horse battery';
const schema = z.object({ SECRET: z.string().min(SECRET.length), NUMBER: z.coerce.number() });

/** Writes a file as orchestrators mount secrets. Returns its path. */
function writeSecret(text: string): string {
  const path = join(createTemporaryFolder(), 'secret');
  writeFileSync(path, text);
  return path;
}

test('a setting is the content of the file that NAME_FILE names, without the line break at its end', () => {
  const env = { SECRET_FILE: writeSecret(`${SECRET}\n`), NUMBER_FILE: writeSecret('7') };
  expect(readEnv(schema, env)).toEqual({ SECRET, NUMBER: 7 });
});

test('a variable takes precedence over the file', () => {
  const env = { SECRET, SECRET_FILE: writeSecret('another secret of this length'), NUMBER: '1' };
  expect(readEnv(schema, env)).toMatchObject({ SECRET });
});

test('a file that is absent is named', () => {
  const env = { SECRET_FILE: '/nonexistent/secret', NUMBER: '1' };
  expect(() => readEnv(schema, env)).toThrow("the file /nonexistent/secret can't be read");
});

test('a contact that push services refuse is named with the reason, an empty one is absent', () => {
  const read = (WEB_PUSH_CONTACT: string) =>
    readEnv(z.object(webPushContactEnv), { WEB_PUSH_CONTACT });
  expect(() => read('mailto:ops@localhost')).toThrow(/refuse localhost\..*at WEB_PUSH_CONTACT/s);
  expect(() => read('ops@mail.net')).toThrow(/must be mailto: .*at WEB_PUSH_CONTACT/s);
  expect(read('')).toEqual({});
  expect(read('https://mail.net')).toEqual({ WEB_PUSH_CONTACT: 'https://mail.net' });
});

test('all wrong settings are named at once, and no value of a secret', () => {
  const env = { SECRET_FILE: writeSecret('too short'), NUMBER: 'many' };
  const read = () => readEnv(schema, env);
  expect(read).toThrow(/SECRET.*NUMBER/s);
  expect(read).not.toThrow('too short');
});
