import { createSetupLink } from '@carillon/admin/operators';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type ConsoleUnderTest,
  createBrowser,
  inviteBrowser,
  PASSWORD,
  setUpOwner,
  startConsole,
  tokenOf,
} from './console-under-test.ts';

let started: ConsoleUnderTest;
beforeAll(async () => {
  started = await startConsole();
});
afterAll(() => started.stop());

describe('one-time links', () => {
  test('one of several set-up links at several processes creates the first operator', async () => {
    const { store, url, startAnother } = started;
    const urls = [url, await startAnother()];
    const tokens = [
      tokenOf(await createSetupLink(store, url)),
      tokenOf(await createSetupLink(store, url)),
    ];
    expect((await createBrowser(url).get('/api/login')).body.setupNeeded).toBe(true);
    const shown = await createBrowser(url).get('/api/setup', { 'x-setup-token': tokens[0] ?? '' });
    expect(shown.body).toEqual({ valid: true, kind: 'setup', role: 'owner' });
    const redemptions = tokens.flatMap((token, n) =>
      urls.map((at, m) => {
        const body = { token, name: `first${n}${m}`, password: PASSWORD };
        return createBrowser(at).post('/api/setup', body);
      }),
    );
    const created = (await Promise.all(redemptions)).filter(({ status }) => status === 200);
    expect(created).toHaveLength(1);
    expect(created[0]?.body.operator).toMatchObject({ role: 'owner', accounts: 'all' });
    expect(await createSetupLink(store, url)).toBeUndefined();
    expect((await createBrowser(url).get('/api/login')).body.setupNeeded).toBe(false);
  });

  test('an invite works once, and not after an hour', async () => {
    const { db, url } = started;
    await db.collection('operators').deleteMany({});
    const owner = await setUpOwner(started);
    const invite = async () => {
      const grant = { role: 'viewer', accounts: 'all' };
      return tokenOf((await owner.post('/api/operators/invite', grant)).body.link);
    };
    const redeem = (token: string, name: string) =>
      createBrowser(url).post('/api/setup', { token, name, password: PASSWORD });
    const token = await invite();
    expect((await redeem(token, 'owner')).status).toBe(409);
    expect((await redeem(token, 'ann')).body.operator).toMatchObject({
      ...{ name: 'ann', role: 'viewer' },
    });
    expect((await redeem(token, 'bob')).status).toBe(404);
    const late = await invite();
    const past = new Date(Date.now() - 1);
    await db.collection('invites').updateMany({}, { $set: { expiresAt: past } });
    expect((await redeem(late, 'late')).status).toBe(404);
  });

  test('a password link sets a new password and ends the sessions', async () => {
    const { url } = started;
    const owner = createBrowser(url);
    await owner.post('/api/login', { name: 'OWNER', password: PASSWORD });
    const user = await inviteBrowser(owner, url, { name: 'carol', role: 'viewer' });
    const { body } = await owner.post(`/api/operators/${user.id}/password-link`);
    const next = 'another long password';
    const redemption = { token: tokenOf(body.link), password: next };
    const response = await createBrowser(url).post('/api/setup', redemption);
    expect(response.body.operator.name).toBe('carol');
    expect((await user.get('/api/session')).status).toBe(401);
    const logIn = (password: string) =>
      createBrowser(url).post('/api/login', { name: 'carol', password });
    expect((await logIn(PASSWORD)).status).toBe(401);
    expect((await logIn(next)).status).toBe(200);
  });
});
