import { Button, Paper, PasswordInput, Stack } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { change } from '../api/request.ts';
import { tellDone } from '../parts/confirm.tsx';
import { Failure } from '../parts/failure.tsx';
import { findPasswordProblem, NewPassword } from '../parts/new-password.tsx';
import { Page } from '../parts/page.tsx';

/** Changes the operator's own password. */
export function PasswordPage() {
  const [current, setCurrent] = useState('');
  const [password, setPassword] = useState('');
  const [repeated, setRepeated] = useState('');
  const save = useMutation({
    mutationFn: () => change('POST', '/password', { current, next: password }),
    onSuccess: () => {
      tellDone('The password is changed. Your other sessions and your open links have ended.');
      for (const clear of [setCurrent, setPassword, setRepeated]) clear('');
    },
    // A wrong password is an answer 401 too, and ends no session.
    onError: () => setCurrent(''),
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (findPasswordProblem(password, repeated) === undefined) save.mutate();
  };
  return (
    <Page
      title="Change the password"
      description="All your other sessions and your open links end."
    >
      <Paper withBorder p="md" maw={420}>
        <form onSubmit={submit}>
          <Stack gap="sm">
            <PasswordInput
              label="Current password"
              autoComplete="current-password"
              required
              withAsterisk={false}
              value={current}
              onChange={({ currentTarget }) => setCurrent(currentTarget.value)}
            />
            <NewPassword
              password={password}
              repeated={repeated}
              onPassword={setPassword}
              onRepeated={setRepeated}
            />
            {save.isError && <Failure error={save.error} />}
            <Button type="submit" loading={save.isPending}>
              Change the password
            </Button>
          </Stack>
        </form>
      </Paper>
    </Page>
  );
}
