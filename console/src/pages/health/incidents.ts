/** Incidents of cards: what failed, which jobs it hit, what is proposed. */
import { request } from '../../api/client'
import { apiPath, send } from '../../api/lists'
import type { components } from '../../api/schema'

type Schemas = components['schemas']
export type IncidentRow = Schemas['IncidentRow']
export type Incident = Schemas['IncidentOut']
export type FaultEvidence = Schemas['FaultEvidenceOut']
export type FaultJob = Schemas['FaultJobOut']

export const listIncidents = (all: boolean): Promise<IncidentRow[]> =>
  request<IncidentRow[]>(`/api/v1/faults${all ? '?all=true' : ''}`)

export const getIncident = (id: string): Promise<Incident> => request<Incident>(apiPath('faults', id))

/** Take the proposed repair over; the server refuses while a card that it would touch is in use. */
export const acceptIncident = (id: string): Promise<Incident> => send('POST', apiPath('faults', id, 'accept'))

export const closeIncident = (id: string, note: string, stillFailed: boolean): Promise<Incident> =>
  send('POST', apiPath('faults', id, 'close'), { note, still_failed: stillFailed })
