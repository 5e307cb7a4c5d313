import { Alert, Button, Code, Stack, Text, TextInput } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type FormEvent, useEffect, useState } from 'react';
import { change, getSetupLink } from '../api/request.ts';
import type { SetupLink } from '../api/types.ts';
import { ROLE_TEXTS } from '../lib/roles.ts';
import { Failure } from '../parts/failure.tsx';
import { Gate } from '../parts/gate.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { findPasswordProblem, NewPassword } from '../parts/new-password.tsx';
import { beginSession } from '../shell/session.ts';

const TITLES = {
  setup: 'Set up Carillon',
  invite: 'Join Carillon',
  reset: 'Set a new password',
} as const;

/** Redeems a one-time link: the first operator, an invite, or a new password. */
export function SetupPage() {
  const [token] = useState(() => new URLSearchParams(location.hash.slice(1)).get('token') ?? '');
  // The token stays out of the history of the browser.
  useEffect(() => history.replaceState(history.state, '', location.pathname), []);
  const link = useQuery({
    queryKey: ['setup-link', token],
    queryFn: () => getSetupLink(token),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  return (
    <Gate title={TITLES[link.data?.valid ? link.data.kind : 'setup']}>
      <Loaded query={link} height={260}>
        {(found) => (found.valid ? <Redemption token={token} link={found} /> : <DeadLink />)}
      </Loaded>
    </Gate>
  );
}

function DeadLink() {
  return (
    <Alert color="red" variant="outline" title="This link does not work" role="alert">
      It has been used or revoked, is older than an hour, or is incomplete.{' '}
      <Code>carillon operator invite</Code> prints a new one, and{' '}
      <Code>carillon operator password</Code> one for a password.
    </Alert>
  );
}

function Redemption({ token, link }: { token: string; link: SetupLink }) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [repeated, setRepeated] = useState('');
  const navigate = useNavigate();
  const isReset = link.kind === 'reset';
  const redeem = useMutation({
    mutationFn: () => change('POST', '/setup', { token, password, ...(!isReset && { name }) }),
    onSuccess: (session) => {
      beginSession(session);
      void navigate({ to: '/' });
    },
    onError: () => undefined,
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (findPasswordProblem(password, repeated) === undefined) redeem.mutate();
  };
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <Text fz="sm">{describeLink(link)}</Text>
        {!isReset && (
          <TextInput
            label="Your name"
            autoComplete="username"
            required
            withAsterisk={false}
            maxLength={100}
            value={name}
            onChange={({ currentTarget }) => setName(currentTarget.value)}
          />
        )}
        <NewPassword
          password={password}
          repeated={repeated}
          onPassword={setPassword}
          onRepeated={setRepeated}
        />
        {redeem.isError && <Failure error={redeem.error} />}
        <Button type="submit" loading={redeem.isPending}>
          {isReset ? 'Set the password' : 'Create the operator'}
        </Button>
      </Stack>
    </form>
  );
}

function describeLink({ kind, role = 'viewer', name = '' }: SetupLink): string {
  if (kind === 'reset') return `This link sets a new password of ${name}.`;
  if (kind === 'setup') return 'You become the first operator, an owner, who may do everything.';
  return `You become an operator with the role ${role}, who ${ROLE_TEXTS[role]}.`;
}
