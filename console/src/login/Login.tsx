// The login page: a one-time link, an API token, and back to where the viewer was.
import { Button, PasswordInput } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../api/client'
import { Refusal } from '../ui/Refusal'

/** Where to go after the login: a path of this console, never another site. */
export function findReturn(search: string): string {
  const back = new URLSearchParams(search).get('back') ?? '/'
  // A browser drops tabs and line ends of an address: `/<tab>/host` is `//host` to it.
  const isPath = /^\/(?!\/)[^\\\p{Cc}]*$/u.test(back)
  return isPath && !back.startsWith('/login') ? back : '/'
}

/** The token of a one-time link: behind the #, which browsers send to no server. */
export function findLinkToken(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, '')).get('token')
}

export function Login() {
  const { t } = useTranslation('login')
  const queries = useQueryClient()
  const [token, setToken] = useState('')
  const login = useMutation({
    mutationFn: (secret: string) => request('/login', { method: 'POST', body: JSON.stringify({ token: secret }) }),
    onSuccess: () => {
      queries.clear()
      // A whole load: nothing of the login before stays in memory.
      location.replace(findReturn(location.search))
    },
  })
  const { mutate } = login
  const isLinkRead = useRef(false)
  useEffect(() => {
    const linked = findLinkToken(location.hash)
    // React's strict mode calls effects twice, and the link's token works once.
    if (linked === null || isLinkRead.current) return
    isLinkRead.current = true
    history.replaceState(null, '', location.pathname + location.search)
    mutate(linked)
  }, [mutate])
  return (
    <main className="login" id="main">
      <title>{`${t('title')} · gpupool`}</title>
      <form
        className="panel body"
        onSubmit={(event) => {
          event.preventDefault()
          if (token.trim()) mutate(token.trim())
        }}
      >
        <h1>{t('title')}</h1>
        <p className="sub">{t('sentence')}</p>
        <PasswordInput
          label={t('token')}
          value={token}
          onChange={(event) => setToken(event.currentTarget.value)}
          autoComplete="off"
          autoFocus
          visibilityToggleButtonProps={{ 'aria-label': t('show') }}
        />
        <Button type="submit" loading={login.isPending} disabled={!token.trim()} fullWidth mt="md">
          {t('submit')}
        </Button>
        {login.isError && <Refusal error={login.error} />}
        <div className="cli">
          <span>{t('link')}</span>
          <code className="mono">gpupool console</code>
        </div>
      </form>
    </main>
  )
}
