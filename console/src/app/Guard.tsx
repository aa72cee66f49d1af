// A page that a viewer has no right to is a page that does not exist, as with the server's answers.
import type { ReactNode } from 'react'
import { Missing } from '../ui/Missing'
import type { Permission } from './pages'
import { useSession } from './session'

export function Guard(props: { needs: Permission | undefined; children: ReactNode }) {
  const session = useSession()
  if (props.needs === undefined) return props.children
  if (session.data === undefined) return null
  return session.data.permissions.includes(props.needs) ? props.children : <Missing />
}
