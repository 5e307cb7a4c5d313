import { Alert, Button, Code, Divider, PasswordInput, Stack, Text, TextInput } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useRouter } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { change, pathWith } from '../api/request.ts';
import { useGet } from '../api/use-get.ts';
import { safeNext } from '../lib/search-text.ts';
import { useUrl } from '../lib/use-url.ts';
import { Failure } from '../parts/failure.tsx';
import { Gate } from '../parts/gate.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { beginSession } from '../shell/session.ts';

/** Logs an operator in and leads back to where it came from. */
export function LoginPage() {
  const { search } = useUrl<'next' | 'error'>();
  const methods = useGet('/login');
  const next = safeNext(search.next);
  return (
    <Gate title="Log in to Carillon">
      {search.error !== undefined && (
        <Alert color="red" variant="outline" title="Single sign-on was refused" role="alert">
          The provider gives you no role here, or the login took too long. The log of the console
          has the reason.
        </Alert>
      )}
      <Loaded query={methods} height={220}>
        {({ setupNeeded, openId }) => (
          <Stack gap="md">
            {setupNeeded ? <SetupNeeded /> : <PasswordForm next={next} />}
            {openId !== null && (
              <>
                {!setupNeeded && <Divider label="or" />}
                <Button
                  component="a"
                  variant="default"
                  href={pathWith('/api/oidc/start', { return: next })}
                >
                  {openId.label}
                </Button>
              </>
            )}
          </Stack>
        )}
      </Loaded>
    </Gate>
  );
}

function SetupNeeded() {
  return (
    <Text fz="sm">
      There is no operator yet. Open the set-up link that the server printed at its start, or make a
      new one with <Code>carillon operator invite</Code>.
    </Text>
  );
}

function PasswordForm({ next }: { next: string }) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const router = useRouter();
  const login = useMutation({
    mutationFn: () => change('POST', '/login', { name, password }),
    onSuccess: (session) => {
      beginSession(session);
      router.history.push(next);
    },
    // A wrong password is an answer 401 too, and ends no session.
    onError: () => setPassword(''),
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    login.mutate();
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <TextInput
          label="Name"
          name="username"
          autoComplete="username"
          required
          withAsterisk={false}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <PasswordInput
          label="Password"
          name="password"
          autoComplete="current-password"
          required
          withAsterisk={false}
          value={password}
          onChange={({ currentTarget }) => setPassword(currentTarget.value)}
        />
        {login.isError && <Failure error={login.error} />}
        <Button type="submit" loading={login.isPending}>
          Log in
        </Button>
        <Text fz="xs" c="dimmed">
          A lost password: an owner makes a link for a new one, or somebody with access to the
          server by <Code>carillon operator password</Code>.
        </Text>
      </Stack>
    </form>
  );
}
